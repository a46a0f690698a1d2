use super::super::frame::{header, subscribe};
use super::super::greeting::Greeting;
use super::super::publication::PublicationFrame;
use super::*;
use proptest::prelude::*;
use saline_protocol::transport::{Limits, TopicFilter};

fn limits(max_message: usize) -> Limits {
    let mut limits = Limits::default();
    limits.max_message = max_message;
    limits
}

fn reader(server: bool, greeted: bool) -> FrameReader {
    let limits = limits(100_000);
    let mut bounds = if server {
        Bounds::server(&limits)
    } else {
        Bounds::client(&limits)
    };
    bounds.greeted = greeted;
    FrameReader::new(bounds)
}

fn framed(kind: FrameKind, body: &[u8]) -> Vec<u8> {
    [&header(kind, body.len())[..], body].concat()
}

/// Everything that `bytes` are, given in slices of `slice` bytes.
fn read(mut reader: FrameReader, bytes: &[u8], slice: usize) -> (Vec<Frame>, Option<Violation>) {
    let mut frames = Vec::new();
    for part in bytes.chunks(slice.max(1)) {
        reader.push(part);
        loop {
            match reader.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(violation) => return (frames, Some(violation)),
            }
        }
    }
    (frames, None)
}

fn topic(text: &str) -> Topic {
    text.parse().unwrap()
}

#[test]
fn frames_are_read_in_slices_of_any_size() {
    let filters = vec![
        TopicFilter::Exact(topic("a/b")),
        TopicFilter::Prefix(topic("c")),
    ];
    let large = vec![7; 50_000];
    let bytes = [
        Greeting::new(&limits(5)).encode(),
        subscribe(3, &filters).to_vec(),
        framed(
            FrameKind::Request,
            &[&9u64.to_le_bytes()[..], &large].concat(),
        ),
        framed(FrameKind::Request, &9u64.to_le_bytes()),
        framed(FrameKind::Ping, &[]),
        framed(FrameKind::Unsubscribe, &3u64.to_le_bytes()),
    ]
    .concat();
    let expected = [
        Frame::Greeting(Greeting::new(&limits(5))),
        Frame::Subscribe { id: 3, filters },
        Frame::Request {
            id: 9,
            payload: large.into(),
        },
        Frame::Request {
            id: 9,
            payload: Bytes::new(),
        },
        Frame::Ping,
        Frame::Unsubscribe(3),
    ];
    for slice in [1, 2, 7, 100, 20_000, bytes.len()] {
        let (frames, violation) = read(reader(true, false), &bytes, slice);
        assert_eq!(violation, None, "slices of {slice}");
        assert_eq!(frames, expected, "slices of {slice}");
    }
}

#[test]
fn publications_of_every_size_come_out_as_they_went_in() {
    for size in [0, 1, SMALL - 10, SMALL, SMALL + 1, 90_000] {
        let payload = Bytes::from(vec![3; size]);
        let sent = PublicationFrame::new(&topic("a/b"), payload.clone());
        let bytes = [&sent.head[..], &sent.tail[..]].concat();
        let (frames, violation) = read(reader(false, true), &bytes, 1000);
        assert_eq!(violation, None);
        let topic = topic("a/b");
        assert_eq!(frames, [Frame::Publication { topic, payload }]);
    }
}

#[test]
fn an_announced_length_is_refused_before_anything_is_allocated() {
    for kind in FrameKind::ALL {
        for server in [false, true] {
            let mut reader = reader(
                server,
                kind != FrameKind::Greeting && kind != FrameKind::Full,
            );
            reader.push(&header(kind, usize::MAX));
            assert!(reader.next().is_err(), "{kind:?}");
            assert!(reader.large.is_none());
        }
    }
    // What is allowed takes no memory that has not arrived either.
    let mut bounds = Bounds::server(&limits(1 << 30));
    bounds.greeted = true;
    let mut reader = FrameReader::new(bounds);
    reader.push(&header(FrameKind::Request, 1 << 30));
    assert_eq!(reader.next(), Ok(None));
    assert!(
        reader
            .large
            .is_some_and(|large| large.body.capacity() <= 2 * MAX_CAPACITY)
    );
}

#[test]
fn limits_are_exact() {
    for (size, fits) in [(100_000, true), (100_001, false)] {
        let body = vec![0; 8 + size];
        let (frames, violation) = read(
            reader(true, true),
            &framed(FrameKind::Request, &body),
            65_536,
        );
        assert_eq!((frames.len() == 1, violation.is_none()), (fits, fits));
    }
}

#[test]
fn frames_out_of_turn_or_for_the_other_side_are_refused() {
    let hello = Greeting::new(&limits(5)).encode();
    assert!(read(reader(true, true), &hello, 100).1.is_some());
    let ping = framed(FrameKind::Ping, &[]);
    assert!(read(reader(true, false), &ping, 100).1.is_some());
    let reply = framed(FrameKind::Reply, &[0; 8]);
    assert!(read(reader(true, true), &reply, 100).1.is_some());
    assert!(read(reader(false, true), &reply, 100).1.is_none());
    let unknown = [0, 0, 0, 0, 14];
    assert!(read(reader(false, true), &unknown, 100).1.is_some());
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        slice in 1usize..50,
        server: bool,
        greeted: bool,
    ) {
        read(reader(server, greeted), &bytes, slice);
    }

    /// Bodies behind headers that are possible get further than noise does.
    #[test]
    fn no_bodies_break_the_reader(
        frames in prop::collection::vec((0usize..12, prop::collection::vec(any::<u8>(), 0..60)), 0..8),
        slice in 1usize..50,
        server: bool,
    ) {
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|(kind, body)| framed(FrameKind::ALL[*kind], body))
            .collect();
        read(reader(server, true), &bytes, slice);
    }

    #[test]
    fn slices_make_no_difference(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40_000), 1..4),
        slice in 1usize..20_000,
    ) {
        let bytes: Vec<u8> = payloads
            .iter()
            .flat_map(|payload| framed(FrameKind::Request, &[&[1; 8][..], payload].concat()))
            .collect();
        let (frames, violation) = read(reader(true, true), &bytes, slice);
        prop_assert_eq!(violation, None);
        prop_assert_eq!(frames.len(), payloads.len());
        for (frame, sent) in frames.iter().zip(&payloads) {
            let same = matches!(frame, Frame::Request { payload, .. } if payload == sent);
            prop_assert!(same);
        }
    }

    /// Publications and replies that are taken together, among frames that are not, come as one by one.
    #[test]
    fn frames_at_once_are_those_one_by_one(
        frames in prop::collection::vec((0usize..4, "[ab](/[ab]){0,2}", 0usize..3000), 1..60),
        slice in 1usize..20_000,
        most in 1usize..5,
    ) {
        let one = |(kind, topic, size): &(usize, String, usize)| match kind {
            0 => framed(FrameKind::Subscribed, &[7; 8]),
            1 => framed(FrameKind::Reply, &vec![*size as u8; 8 + size]),
            _ => {
                let length = (topic.len() as u16).to_le_bytes();
                framed(FrameKind::Publication, &[&length, topic.as_bytes(), &vec![9; *size]].concat())
            }
        };
        let bytes: Vec<u8> = frames.iter().flat_map(one).collect();
        let (expected, violation) = read(reader(false, true), &bytes, slice);
        prop_assert_eq!(violation, None);
        let (mut reader, mut found) = (reader(false, true), Vec::new());
        for part in bytes.chunks(slice) {
            reader.push(part);
            loop {
                let mut publications = Vec::new();
                reader.publications(&mut publications).unwrap();
                let publication = |(topic, payload)| Frame::Publication { topic, payload };
                found.extend(publications.into_iter().map(publication));
                let before = found.len();
                let reply = |id, payload| found.push(Frame::Reply { id, payload });
                reader.messages(FrameKind::Reply, most, reply).unwrap();
                prop_assert!(found.len() - before <= most);
                let Some(frame) = reader.next().unwrap() else {
                    break;
                };
                found.push(frame);
            }
        }
        prop_assert_eq!(found.len(), frames.len());
        prop_assert_eq!(found, expected);
    }
}
