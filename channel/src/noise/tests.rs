use super::*;
use proptest::prelude::*;
use saline_messages::{Extension, MAX_SOFTWARE};
use std::sync::Arc;

struct Ends {
    responder: Responder,
    master_noise: [u8; 32],
    master_issued: u64,
    identity: Identity,
    noise: NoiseKey,
}

fn ends() -> Ends {
    let noise = NoiseKey::generate().unwrap();
    Ends {
        master_noise: noise.public(),
        master_issued: noise.issued(),
        responder: Responder::new(Arc::new(Identity::generate().unwrap()), noise, None),
        identity: Identity::generate().unwrap(),
        noise: NoiseKey::generate().unwrap(),
    }
}

impl Ends {
    fn keys(&self) -> InitiatorKeys<'_> {
        InitiatorKeys {
            role: Role::Minion,
            id: "m1",
            identity: &self.identity,
            noise: &self.noise,
            certificate: None,
            versions: ProtocolVersions::OURS,
            attempted: 1_700_000_000_000_000_000,
        }
    }
}

#[test]
fn first_contact_agrees_keys_and_proves_both() {
    let ends = ends();
    let (contact, first) = FirstContact::begin(ends.keys()).unwrap();
    let (half, reply) = ends.responder.first(&first).unwrap();
    let (met, finish, mine) = contact.finish(&reply).unwrap();
    let (proven, theirs) = half.finish(&finish).unwrap();
    assert_eq!(met.identity, ends.responder.identity.public());
    assert_eq!(
        (met.noise, met.issued),
        (ends.master_noise, ends.master_issued)
    );
    assert_eq!(proven.issued, ends.noise.issued());
    assert_eq!(proven.identity, ends.identity.public());
    assert_eq!(
        (proven.role, proven.id.as_str(), proven.noise),
        (Role::Minion, "m1", ends.noise.public())
    );
    assert_eq!(
        (mine.initiator, mine.responder),
        (theirs.initiator, theirs.responder)
    );
    assert_ne!(mine.initiator, mine.responder);
}

#[test]
fn a_return_takes_one_round_trip() {
    let ends = ends();
    let (resumption, body) = Resumption::begin(ends.keys(), &ends.master_noise).unwrap();
    let resuming = ends.responder.resume(&body).unwrap();
    assert_eq!(resuming.proven.identity, ends.identity.public());
    assert_eq!(resuming.proven.attempted, Some(1_700_000_000_000_000_000));
    let (reply, theirs) = resuming.reply(b"welcome").unwrap();
    let (payload, mine) = resumption.finish(&reply).unwrap();
    assert_eq!(payload, b"welcome");
    assert_eq!(
        (mine.initiator, mine.responder),
        (theirs.initiator, theirs.responder)
    );
}

#[test]
fn every_flipped_byte_is_noticed() {
    let ends = ends();
    let (contact, first) = FirstContact::begin(ends.keys()).unwrap();
    let (_, reply) = ends.responder.first(&first).unwrap();
    drop(contact);
    for index in 0..reply.len() {
        let (contact, first) = FirstContact::begin(ends.keys()).unwrap();
        let (_, mut reply) = ends.responder.first(&first).unwrap();
        reply[index] ^= 1;
        assert!(contact.finish(&reply).is_err(), "byte {index} of the reply");
    }
    let (_, body) = Resumption::begin(ends.keys(), &ends.master_noise).unwrap();
    for index in 0..body.len() {
        let mut body = body.clone();
        body[index] ^= 1;
        assert!(
            ends.responder.resume(&body).is_err(),
            "byte {index} of a resume"
        );
    }
}

#[test]
fn an_identity_that_is_not_held_is_refused() {
    let ends = ends();
    let stranger = Identity::generate().unwrap();
    // Somebody who names another's identity and signs with its own.
    let (contact, first) = FirstContact::begin(ends.keys()).unwrap();
    let (half, reply) = ends.responder.first(&first).unwrap();
    let mut contact = contact;
    read(&mut contact.state, &reply).unwrap();
    let forged = encode(&Introduction {
        id: "m1".into(),
        identity: ends.identity.public().0,
        issued: 0,
        signature: stranger.sign(&vouched(Role::Minion as u8, "m1", &ends.noise.public(), 0)),
        versions: ProtocolVersions::OURS,
        software: String::new(),
        extensions: Vec::new(),
    });
    let finish = write(&mut contact.state, &forged).unwrap();
    assert!(matches!(
        half.finish(&finish),
        Err(ChannelError::NotVouched)
    ));
}

#[test]
fn versions_and_software_are_told_and_what_is_unknown_is_skipped() {
    let ends = ends();
    let versions = ProtocolVersions {
        lowest: 3,
        highest: 9,
    };
    let keys = InitiatorKeys {
        versions,
        ..ends.keys()
    };
    let (_, resume) = Resumption::begin(keys, &ends.master_noise).unwrap();
    let proven = ends.responder.resume(&resume).unwrap().proven;
    assert_eq!(
        (proven.versions, proven.software.as_str()),
        (versions, SOFTWARE)
    );

    // As a later version may introduce itself.
    let introduce = |software: &str| {
        let mut introduction: Introduction = decode(&keys.introduce(None)).unwrap();
        introduction.software = software.to_owned();
        introduction.extensions = vec![Extension {
            number: 77,
            bytes: vec![1; 300],
        }];
        let (contact, first) = FirstContact::begin(keys).unwrap();
        let (half, reply) = ends.responder.first(&first).unwrap();
        let mut contact = contact;
        read(&mut contact.state, &reply).unwrap();
        let finish = write(&mut contact.state, &encode(&introduction)).unwrap();
        half.finish(&finish)
    };
    assert_eq!(
        introduce("9.0.0-rc1 (a build)").unwrap().0.software,
        "9.0.0-rc1 (a build)"
    );
    let long = "x".repeat(MAX_SOFTWARE + 1);
    for wrong in ["\u{1b}[2J", "a\nb", "é", long.as_str()] {
        assert!(
            matches!(introduce(wrong), Err(ChannelError::Mismatch)),
            "{wrong:?}"
        );
    }
}

#[test]
fn another_certificate_or_role_breaks_the_handshake() {
    let ends = ends();
    let keys = InitiatorKeys {
        certificate: Some([7; 32]),
        ..ends.keys()
    };
    let (contact, first) = FirstContact::begin(keys).unwrap();
    let (_, reply) = ends.responder.first(&first).unwrap();
    assert!(contact.finish(&reply).is_err());
    let (contact, mut first) = FirstContact::begin(ends.keys()).unwrap();
    first[0] = Role::Operator as u8;
    let (_, reply) = ends.responder.first(&first).unwrap();
    assert!(contact.finish(&reply).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_refused_cleanly(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let ends = ends();
        let _ = ends.responder.resume(&bytes);
        if let Ok((half, _)) = ends.responder.first(&bytes) {
            prop_assert!(half.finish(&bytes).is_err());
        }
        let (contact, _) = FirstContact::begin(ends.keys()).unwrap();
        prop_assert!(contact.finish(&bytes).is_err());
    }
}
