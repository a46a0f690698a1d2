//! The keys of a master and a minion, for the targets that need a session.

use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use saline_channel::noise::{Responder, SplitKeys};
use saline_channel::{Credentials, Identity, NoiseKey, PublicIdentity};
use saline_messages::{ProtocolVersions, Role};

use crate::scratch_folder::ScratchFolder;

/// The private Noise keys, which a hostile peer uses by itself.
pub(crate) const MASTER_NOISE: [u8; 32] = [0x11; 32];
pub(crate) const MINION_NOISE: [u8; 32] = [0x22; 32];

/// Both sides of a session. No key is random, so that an input means the same in every run.
pub(crate) struct Peers {
    pub(crate) master: Arc<Identity>,
    pub(crate) master_noise: NoiseKey,
    pub(crate) responder: Responder,
    pub(crate) minion: Credentials,
}

pub(crate) static PEERS: LazyLock<Peers> = LazyLock::new(|| {
    let master = Arc::new(identity(0x33));
    let master_noise = noise_key(&MASTER_NOISE);
    Peers {
        responder: Responder::new(Arc::clone(&master), master_noise.clone(), None),
        master,
        master_noise,
        minion: Credentials {
            role: Role::Minion,
            id: "m1".to_owned(),
            identity: Arc::new(identity(0x44)),
            noise: noise_key(&MINION_NOISE),
            versions: ProtocolVersions::OURS,
        },
    }
});

impl Peers {
    pub(crate) fn master_identity(&self) -> PublicIdentity {
        self.master.public()
    }
}

/// Returns the keys of a session.
pub(crate) fn session_keys() -> SplitKeys {
    SplitKeys {
        initiator: [1; 32],
        responder: [2; 32],
    }
}

fn identity(byte: u8) -> Identity {
    let folder = ScratchFolder::new();
    let path = folder.write("identity.key", pem(0x70, &[byte; 32]).as_bytes());
    Identity::read(&path).expect("a seed of 32 bytes is a key")
}

fn noise_key(private: &[u8; 32]) -> NoiseKey {
    let folder = ScratchFolder::new();
    folder.write("noise.key", pem(0x6e, private).as_bytes());
    NoiseKey::load_or_create(folder.path()).expect("any 32 bytes are a key")
}

/// Returns a private key in PEM (PKCS #8, RFC 8410): 0x70 for Ed25519, 0x6e for X25519.
fn pem(curve: u8, key: &[u8; 32]) -> String {
    let prefix = [
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, curve, 0x04, 0x22, 0x04,
        0x20,
    ];
    let body = STANDARD.encode([&prefix[..], key].concat());
    format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
}
