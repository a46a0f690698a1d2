//! What is around the messages of version 1, with keys that are known: the header, the seal, the keys of publications, the
//! signature of a job, and a resumed session that was recorded when the version was frozen.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::collections::HashMap;

use saline_frozen_peers::v1::cipher::Key;
use saline_frozen_peers::v1::handshake::{ATTEMPT_TIME, Oneself, Resuming, role};
use saline_frozen_peers::v1::header::{Header, class, kind};
use saline_frozen_peers::v1::keys::{Identity, NoiseKey};
use saline_frozen_peers::v1::messages::{Claims, Job, NO_ARGUMENTS, Target, TargetKind, Versions};
use saline_frozen_peers::v1::publication::{own_key, sign, signed_bytes, topic_all, topic_of};

/// A name and its bytes a line. They were computed with other libraries from what the version says, the resume
/// aside. Nothing writes this file: where it does not say what the peer does, the peer has changed.
const KNOWN: &str = include_str!("known_answers.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn known(name: &str) -> &'static str {
    let lines: HashMap<_, _> = KNOWN.lines().filter_map(|l| l.split_once(' ')).collect();
    lines.get(name).copied().unwrap_or_default()
}

fn is_known(name: &str, bytes: &[u8]) {
    assert_eq!(hex(bytes), known(name), "{name}");
}

fn header(kind: u8) -> Header {
    Header {
        kind,
        session: [0xab; 16],
        class: class::RETURN,
        counter: 0x0102,
    }
}

#[test]
fn headers_seals_and_signatures_are_what_they_were() {
    let record = header(kind::RECORD);
    is_known("header", &record.encode());
    is_known(
        "record",
        &Key::new(&[1; 32]).seal(&record, &[], &[], b"ping"),
    );
    let publication = header(kind::PUBLICATION);
    let topic = topic_of("m1");
    is_known("topic", topic.as_str().as_bytes());
    assert_eq!(topic_all().as_str(), "job/all");
    let key = own_key(&[2; 32], 5);
    let sealed = key.seal(&publication, &[7; 16], topic.as_str().as_bytes(), b"body");
    is_known("publication", &sealed);
    let job = Job {
        jid: "20261121091409931549".to_owned(),
        target: Target {
            kind: TargetKind::List,
            expression: "m1,m2".to_owned(),
        },
        fun: "test.ping".to_owned(),
        arg: NO_ARGUMENTS.to_vec(),
        user: "root".to_owned(),
        created: 1,
        expires: 300,
        claims: Claims::All,
    };
    is_known("signed", &signed_bytes(&job));
    let signed = sign(&Identity::from_seed(&[3; 32]), job);
    is_known("signature", &signed.signature);
}

fn versions() -> Versions {
    Versions {
        lowest: 1,
        highest: 1,
    }
}

/// Noise draws a key for each handshake, so this is one that was recorded.
#[test]
fn a_resume_that_was_recorded_is_understood() {
    let (identity, noise) = (
        Identity::from_seed(&[3; 32]),
        NoiseKey::from_private([5; 32]),
    );
    let master = Oneself {
        role: role::MASTER,
        id: "",
        identity: &identity,
        noise: &noise,
        versions: versions(),
        extensions: Vec::new(),
    };
    let digits: Vec<u8> = known("resume")
        .chars()
        .map(|digit| digit.to_digit(16).unwrap() as u8)
        .collect();
    let recorded: Vec<u8> = digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect();
    let peer = Resuming::read(&master, Some([6; 32]), &recorded).peer;
    let introduction = peer.introduction;
    assert_eq!(introduction.id, "m1");
    assert_eq!(introduction.versions, versions());
    assert_eq!(
        introduction.identity,
        Identity::from_seed(&[4; 32]).public()
    );
    assert_eq!(introduction.extensions[0].number, ATTEMPT_TIME);
}
