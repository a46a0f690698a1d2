//! Header, seal, keys of publications and signature of a job with keys that are known, and a resumed session that was
//! recorded. The oracle and the channel both have to give these bytes.

use std::collections::HashMap;
use std::sync::Arc;

use saline_channel::noise::{Responder, SplitKeys};
use saline_channel::publication::{sign_job, topic_all, topic_of};
use saline_channel::record::InitiatorRecords;
use saline_messages::{Arguments, Class, Header, Jid, Job, Kind, MinionId, MustClaim, SessionId};
use saline_targeting::{Target, TargetKind};

use super::channel_keys;
use super::cipher::{self, Identity, Key};
use super::handshake::{ATTEMPT_TIME, MASTER, Side};
use super::header::{self, class, kind};

/// A name and its bytes a line. They were computed with other libraries from what the wire says, the resume
/// aside. Nothing writes this file.
const KNOWN: &str = include_str!("known_answers.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn known(name: &str) -> &'static str {
    let lines: HashMap<_, _> = KNOWN.lines().filter_map(|l| l.split_once(' ')).collect();
    lines[name]
}

fn is_known(name: &str, bytes: &[u8]) {
    assert_eq!(hex(bytes), known(name), "{name}");
}

fn oracle_header(kind: u8) -> header::Header {
    header::Header {
        kind,
        session: [0xab; 16],
        class: class::RETURN,
        counter: 0x0102,
    }
}

#[test]
fn headers_and_records_are_the_known_ones() {
    let oracle = oracle_header(kind::RECORD);
    is_known("header", &oracle.encode());
    is_known(
        "record",
        &Key::new(&[1; 32]).seal(&oracle, &[], &[], b"ping"),
    );

    let header = Header {
        kind: Kind::Record,
        session: SessionId([0xab; 16]),
        class: Class::Return,
        counter: 0x0102,
    };
    is_known("header", &header.encode());
    let records = InitiatorRecords::new(&SplitKeys {
        initiator: [1; 32],
        responder: [2; 32],
    });
    is_known("record", &records.seal_request(&header, b"ping"));
}

#[test]
fn topics_and_publications_are_the_known_ones() {
    let topic = cipher::topic_of("m1");
    is_known("topic", topic.as_bytes());
    let key = Key::of_publications(&[2; 32], 5);
    let publication = oracle_header(kind::PUBLICATION);
    is_known(
        "publication",
        &key.seal(&publication, &[7; 16], topic.as_bytes(), b"body"),
    );

    let topic = topic_of(&MinionId::parse("m1").unwrap());
    is_known("topic", topic.as_str().as_bytes());
    assert_eq!(topic_all().as_str(), "job/all");
}

#[test]
fn the_signature_of_a_job_is_the_known_one() {
    let job = Job {
        jid: Jid::parse("20261121091409931549").unwrap(),
        target: Target {
            kind: TargetKind::List,
            expression: "m1,m2".to_owned(),
        },
        fun: "test.ping".to_owned(),
        arg: Arguments::default().pack(),
        user: "root".to_owned(),
        created: 1,
        expires: 300,
        claims: MustClaim::EverybodyOnTopic,
    };
    let (identity, _) = channel_keys([3; 32], [5; 32]);
    is_known("signature", &sign_job(&identity, job).signature);
    let signed: Vec<u8> = bytes("signed");
    is_known("signature", &Identity::from_seed(&[3; 32]).sign(&signed));
}

fn bytes(name: &str) -> Vec<u8> {
    let digits = known(name).as_bytes().chunks(2);
    let digits = digits.map(|two| std::str::from_utf8(two).unwrap());
    digits
        .map(|two| u8::from_str_radix(two, 16).unwrap())
        .collect()
}

/// When the identity in the recorded resume vouched for its Noise key.
const ISSUED: u64 = 1_700_000_000_123_456_789;

/// Noise draws a key for each handshake, so this is one that was recorded.
#[test]
fn a_recorded_resume_is_understood() {
    let recorded = bytes("resume");
    let peer = Identity::from_seed(&[4; 32]).public();
    let side = Side {
        role: MASTER,
        id: "",
        identity: Identity::from_seed(&[3; 32]),
        noise: [5; 32],
        issued: 0,
        extensions: Vec::new(),
    };
    let ((said, noise), _) = side.answer_resume(Some([6; 32]), &recorded);
    assert_eq!((said.id.as_str(), said.identity), ("m1", peer));
    assert_eq!(
        (said.versions, said.extensions[0].0),
        ((1, 1), ATTEMPT_TIME)
    );

    let (identity, key) = channel_keys([3; 32], [5; 32]);
    let responder = Responder::new(Arc::new(identity), key, Some([6; 32]));
    let proven = responder.resume(&recorded).unwrap().proven;
    assert_eq!((proven.id.as_str(), proven.identity.0), ("m1", peer));
    assert_eq!((proven.noise, proven.attempted.is_some()), (noise, true));
    assert_eq!((said.issued, proven.issued), (ISSUED, ISSUED));
}
