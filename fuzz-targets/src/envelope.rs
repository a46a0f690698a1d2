//! The clear header of every message.

use std::time::Duration;

use saline_messages::{Class, HEADER_LEN, Header, Kind, Refusal, SessionId, busy, refusal};

pub(crate) fn envelope(bytes: &[u8]) {
    let decoded = Header::decode(bytes);
    // Whatever the bytes are, the answer to them can be read.
    let about = decoded.as_ref().ok().map(|(header, _)| header);
    let refused = refusal(about, Refusal::Malformed);
    let (header, body) = Header::decode(&refused).expect("a refusal is a message");
    assert_eq!(header.kind, Kind::Refused);
    assert_eq!(Refusal::from_body(body), Refusal::Malformed);
    let Ok((header, body)) = decoded else {
        return;
    };
    assert_eq!(header.with_body(body), bytes, "encoded again");
    assert_eq!(body.len() + HEADER_LEN, bytes.len());
    let busy = busy(&header, Duration::from_millis(7));
    let (answer, _) = Header::decode(&busy).expect("a busy is a message");
    assert_eq!(
        (answer.session, answer.counter),
        (header.session, header.counter)
    );
    let _ = Refusal::from_body(body);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (1..=10)
        .filter_map(|kind| Kind::try_from(kind).ok())
        .map(|kind| {
            let header = Header {
                kind,
                session: SessionId([7; 16]),
                class: Class::Event,
                counter: 300,
            };
            header.with_body(b"\x01\x00\x00\x01").to_vec()
        })
        .collect();
    seeds.push(vec![1; HEADER_LEN - 1]);
    seeds
}
