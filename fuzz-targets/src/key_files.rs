//! Key files in PEM, and the folder of a daemon's keys.

use saline_channel::{Identity, MasterKeys, NoiseKey, PublicIdentity, Successors};

use crate::names::text;
use crate::scratch_folder::ScratchFolder;

pub(crate) fn key_files(bytes: &[u8]) {
    let from_text = text(bytes).and_then(|text| PublicIdentity::from_pem(text).ok());
    if let Some(identity) = from_text {
        let again = PublicIdentity::from_pem(&identity.to_pem());
        assert_eq!(again.ok(), Some(identity));
    }
    let folder = ScratchFolder::new();
    let public = folder.write("master.pub", bytes);
    match MasterKeys::read(&public) {
        Ok(keys) => {
            let keys = keys.expect("the file is there");
            assert_eq!(Some(keys.identity), from_text);
            let copy = folder.path().join("copy.pub");
            keys.write(&copy).expect("the folder takes files");
            assert_eq!(MasterKeys::read(&copy).ok().flatten(), Some(keys));
        }
        Err(_) => assert_eq!(from_text, None),
    }
    if let Ok(successors) = Successors::read(&public) {
        let copy = folder.path().join("copy.successors");
        successors.write(&copy).expect("the folder takes files");
        assert_eq!(Successors::read(&copy).ok(), Some(successors));
    }
    for name in ["identity.key", "noise.key"] {
        folder.write(name, bytes);
    }
    if let Ok(identity) = Identity::load_or_create(folder.path()) {
        let signature = identity.sign(b"message");
        assert!(identity.public().verifies(b"message", &signature));
    }
    let _ = NoiseKey::load_or_create(folder.path());
    // A key that cannot be read is never replaced.
    for name in ["identity.key", "noise.key"] {
        let found = std::fs::read(folder.path().join(name));
        assert_eq!(found.ok().as_deref(), Some(bytes), "{name}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let folder = ScratchFolder::new();
    let public = PublicIdentity([7; 32]).to_pem();
    let path = folder.path().join("master.pub");
    let keys = MasterKeys {
        identity: PublicIdentity([7; 32]),
        noise: Some([9; 32]),
        issued: 1_700_000_000_000_000_000,
        predecessors: vec![PublicIdentity([8; 32]).fingerprint()],
    };
    // Both blocks, as a minion pins them.
    let both = keys
        .write(&path)
        .map(|()| std::fs::read(&path).unwrap_or_default());
    // PKCS #8 of the seeds 0x07 and 0x09 repeated, Ed25519 and X25519.
    let private = |body: &str| {
        format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n").into_bytes()
    };
    let successors = Successors::from_bytes(&[5; 128]).unwrap_or_default();
    let records = successors
        .write(&path)
        .map(|()| std::fs::read(&path).unwrap_or_default());
    vec![
        records.unwrap_or_default(),
        public.clone().into_bytes(),
        both.unwrap_or_default(),
        private("MC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH"),
        private("MC4CAQAwBQYDK2VuBCIEIAkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJ"),
        public.replace('\n', "\r\n").into_bytes(),
        public.replace("-----END", "").into_bytes(),
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".to_vec(),
    ]
}
