//! Every message of version 1, read by its frozen peer.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use saline_frozen_peers::v1::messages::{
    Admission, BatchRequest, Body, CallerReply, CallerRequest, Claims, Introduction, MinionReply,
    MinionRequest, OperatorReply, OperatorRequest, PendingRequest, decode, encode,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn passes<T: Serialize + DeserializeOwned>(name: &str, bytes: &[u8]) {
    assert_eq!(encode(&decode::<T>(bytes)), bytes, "{name}");
}

#[test]
fn the_peer_of_version_1_reads_and_writes_every_message_of_it() {
    let messages = include_str!("../../messages/tests/version-1.txt");
    for line in messages.lines() {
        let (name, hex) = line.split_once(' ').unwrap();
        let digits: Vec<u8> = hex
            .chars()
            .map(|digit| digit.to_digit(16).unwrap() as u8)
            .collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect();
        let (kind, variant) = name.split_once('.').unwrap_or((name, ""));
        match kind {
            "Introduction" => passes::<Introduction>(name, &bytes),
            "PendingRequest" => passes::<PendingRequest>(name, &bytes),
            "MinionRequest" => passes::<MinionRequest>(name, &bytes),
            "MinionReply" => passes::<MinionReply>(name, &bytes),
            "OperatorRequest" => passes::<OperatorRequest>(name, &bytes),
            "OperatorReply" => passes::<OperatorReply>(name, &bytes),
            "CallerRequest" => passes::<CallerRequest>(name, &bytes),
            "CallerReply" => passes::<CallerReply>(name, &bytes),
            "Body" => passes::<Body>(name, &bytes),
            "BatchRequest" => passes::<BatchRequest>(name, &bytes),
            "Claims" => passes::<Claims>(name, &bytes),
            "Accepted" | "Pending" | "Rejected" | "Denied" | "Full" | "NoCommonVersion" => {
                passes::<Admission>(name, &bytes);
                // What is read is what the name says, and not a neighbour of the same shape.
                assert!(format!("{:?}", decode::<Admission>(&bytes)).starts_with(kind));
                continue;
            }
            other => panic!("no peer reads a {other}"),
        }
        let shown = match kind {
            "MinionRequest" => format!("{:?}", decode::<MinionRequest>(&bytes)),
            "MinionReply" => format!("{:?}", decode::<MinionReply>(&bytes)),
            "OperatorRequest" => format!("{:?}", decode::<OperatorRequest>(&bytes)),
            "OperatorReply" => format!("{:?}", decode::<OperatorReply>(&bytes)),
            "CallerRequest" => format!("{:?}", decode::<CallerRequest>(&bytes)),
            "CallerReply" => format!("{:?}", decode::<CallerReply>(&bytes)),
            "Claims" => format!("{:?}", decode::<Claims>(&bytes)),
            _ => continue,
        };
        for word in variant.split('.') {
            assert!(shown.contains(word), "{name} is read as {shown}");
        }
    }
}
