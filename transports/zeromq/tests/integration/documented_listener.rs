//! A listener to the event bus that was written from `docs/event-bus.md` alone, with a bare `SUB` socket.

use crate::support::{TestServer, soon};
use saline_protocol::transport::Topic;

/// The filter that it listens to, and its bit in a publication's mask: one segment, a prefix.
const FILTER: &[u8] = b"event/";
const BIT: u32 = 1;
const CONFIRMATION: &[u8] = b"\x02c12345678event/";

/// What the listener read.
#[derive(Debug, Default)]
struct Heard {
    payloads: Vec<String>,
    /// Frames with several payloads.
    series: usize,
    /// The last number of the filter.
    last: u64,
    incarnation: u64,
}

/// Numbers as the page has them.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Takes `count` bytes from the front.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

impl Heard {
    fn note(&mut self, frame: &[u8]) {
        // No topic contains these two; a beacon's may end in 1.
        let end = frame.iter().position(|byte| *byte <= 1).unwrap() + 1;
        let (_topic, mut rest) = frame.split_at(end);
        assert_eq!(take(&mut rest, 1), [1], "the version");
        let kind = take(&mut rest, 1)[0];
        if kind == 2 {
            return;
        }
        assert_eq!(
            number(take(&mut rest, 8)),
            self.incarnation,
            "one publisher"
        );
        let mask = number(take(&mut rest, 2));
        let before = (mask & ((1 << BIT) - 1)).count_ones();
        let numbers = take(&mut rest, 8 * mask.count_ones() as usize);
        let mut at = number(&numbers[8 * before as usize..][..8]);
        let mut hear = |payload: &[u8]| {
            assert_eq!(at, self.last + 1, "nothing was lost");
            self.last = at;
            at += 1;
            self.payloads
                .push(String::from_utf8(payload.to_vec()).unwrap());
        };
        match kind {
            1 => hear(rest),
            5 => {
                self.series += 1;
                while !rest.is_empty() {
                    let length = number(take(&mut rest, 4)) as usize;
                    hear(take(&mut rest, length));
                }
            }
            other => panic!("a frame of kind {other}"),
        }
    }
}

#[tokio::test]
async fn a_listener_written_from_the_page_hears_every_event() {
    let host = TestServer::new().await;
    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.set_rcvtimeo(10_000).unwrap();
    socket.set_subscribe(FILTER).unwrap();
    socket.set_subscribe(CONFIRMATION).unwrap();
    let port = host.publications().port().unwrap();
    socket.connect(&format!("tcp://127.0.0.1:{port}")).unwrap();

    let (confirmed, is_confirmed) = tokio::sync::oneshot::channel();
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    let listener = std::thread::spawn(move || {
        let confirmation = socket.recv_bytes(0).unwrap();
        let mut rest = confirmation.strip_prefix(CONFIRMATION).unwrap();
        assert_eq!(take(&mut rest, 2), [1, 4], "the version, and Confirmed");
        let mut heard = Heard {
            incarnation: number(take(&mut rest, 8)),
            last: number(take(&mut rest, 8)),
            ..Heard::default()
        };
        socket.set_unsubscribe(CONFIRMATION).unwrap();
        confirmed.send(()).unwrap();
        while heard.payloads.last().is_none_or(|last| last != "last") {
            heard.note(&socket.recv_bytes(0).unwrap());
        }
        let _ = ended.send(heard);
    });
    soon(is_confirmed).await.unwrap();

    let topic: Topic = "event/salt/auth".parse().unwrap();
    let texts: Vec<String> = (0..300).map(|n| format!("event {n}")).collect();
    let publisher = &host.server.publisher;
    // The publisher's task has no turn meanwhile, so it joins them.
    for text in texts.iter().map(String::as_str).chain(["last"]) {
        let payload = text.to_owned().into();
        soon(publisher.publish(&topic, payload)).await.unwrap();
    }

    let heard = soon(has_ended).await.unwrap();
    listener.join().unwrap();
    assert_eq!(heard.payloads[..300], texts);
    assert!(heard.series > 0, "no two events were joined");
}
