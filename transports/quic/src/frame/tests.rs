use super::*;
use crate::batch::Batch;
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds {
    max_message: 1000,
    subscriptions: 10,
};

/// Every frame that `bytes` hold, fed in slices of `step` bytes, so many at once.
fn parsed(bytes: &[u8], step: usize, at_once: usize) -> Result<Vec<Frame>, Broken> {
    let mut parser = Parser::new(BOUNDS);
    let mut frames = Vec::new();
    let slices: Vec<_> = bytes.chunks(step).map(Bytes::copy_from_slice).collect();
    for slices in slices.chunks(at_once) {
        parser.feed(slices)?;
        while let Some(frame) = parser.next()? {
            frames.push(frame);
        }
    }
    assert!(parser.is_empty(), "bytes are left");
    Ok(frames)
}

fn written(batch: &mut Batch) -> Vec<u8> {
    batch.take().concat()
}

fn a_topic() -> impl Strategy<Value = Topic> {
    "[!-.0-~]{1,20}(/[!-.0-~]{1,20}){0,3}".prop_map(|text| text.parse().unwrap())
}

fn a_filter() -> impl Strategy<Value = TopicFilter> {
    (a_topic(), any::<bool>()).prop_map(|(topic, prefix)| {
        if prefix {
            TopicFilter::Prefix(topic)
        } else {
            TopicFilter::Exact(topic)
        }
    })
}

fn a_subscription() -> impl Strategy<Value = Asked> {
    let filters = proptest::collection::vec(a_filter(), 1..3);
    (any::<u64>(), filters).prop_map(|(id, filters)| Asked { id, filters })
}

fn a_payload() -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..1000).prop_map(Bytes::from)
}

fn a_frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        proptest::collection::vec(a_subscription(), 0..3).prop_map(Frame::Hello),
        a_subscription().prop_map(Frame::Subscribe),
        any::<u64>().prop_map(Frame::Unsubscribe),
        (any::<u64>(), a_payload()).prop_map(|(id, payload)| Frame::Request(id, payload)),
        (any::<u64>(), a_payload()).prop_map(|(id, payload)| Frame::Reply(id, payload)),
        any::<u64>().prop_map(Frame::NoReply),
        Just(Frame::Welcome),
        any::<u64>().prop_map(Frame::Subscribed),
        any::<u64>().prop_map(Frame::Refused),
        (a_topic(), a_payload()).prop_map(|(topic, payload)| Frame::Message(topic, payload)),
        a_topic().prop_map(Frame::Announced),
        (any::<u64>(), any::<u64>()).prop_map(|(id, count)| Frame::Lost(id, count)),
        any::<u64>().prop_map(Frame::Goodbye),
    ]
}

fn write(batch: &mut Batch, frame: &Frame) {
    match frame {
        Frame::Hello(asked) => batch.hello(asked),
        Frame::Subscribe(asked) => batch.subscribe(asked),
        Frame::Unsubscribe(id) => batch.bare(Kind::Unsubscribe, *id),
        Frame::Request(id, payload) => batch.frame(Kind::Request, *id, payload),
        Frame::Reply(id, payload) => batch.frame(Kind::Reply, *id, payload),
        Frame::NoReply(id) => batch.bare(Kind::NoReply, *id),
        Frame::Welcome => batch.bare(Kind::Welcome, VERSION),
        Frame::Subscribed(id) => batch.bare(Kind::Subscribed, *id),
        Frame::Refused(id) => batch.bare(Kind::Refused, *id),
        Frame::Message(topic, payload) => {
            batch.bytes(&message_head(topic, payload.len()).freeze());
            batch.bytes(payload);
        }
        Frame::Announced(topic) => {
            let name = Bytes::copy_from_slice(topic.as_str().as_bytes());
            batch.frame(Kind::Announced, 0, &name);
        }
        Frame::Lost(id, count) => {
            let count = Bytes::copy_from_slice(&count.to_le_bytes());
            batch.frame(Kind::Lost, *id, &count);
        }
        Frame::Goodbye(count) => batch.bare(Kind::Goodbye, *count),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_however_it_is_cut(
        frames in proptest::collection::vec(a_frame(), 0..12),
        step in 1usize..700,
        at_once in 1usize..40,
    ) {
        let mut batch = Batch::default();
        for frame in &frames {
            write(&mut batch, frame);
        }
        prop_assert_eq!(parsed(&written(&mut batch), step, at_once).unwrap(), frames);
        prop_assert!(batch.is_empty());
    }

    #[test]
    fn garbage_neither_panics_nor_is_kept_beyond_its_bound(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000),
    ) {
        let mut parser = Parser::new(BOUNDS);
        for slice in bytes.chunks(100) {
            if parser.feed(&[Bytes::copy_from_slice(slice)]).is_err() {
                break;
            }
            while let Ok(Some(_)) = parser.next() {}
            if parser.next().is_err() {
                break;
            }
            prop_assert!(parser.held() <= HEADER + 10 * (MAX_BYTES + 16) + 100);
        }
    }

    #[test]
    fn a_frame_with_bytes_changed_is_read_or_refused(
        frame in a_frame(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut batch = Batch::default();
        write(&mut batch, &frame);
        let mut bytes = written(&mut batch);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut parser = Parser::new(BOUNDS);
        if parser.feed(&[bytes.into()]).is_ok() {
            while let Ok(Some(_)) = parser.next() {}
        }
    }
}

#[test]
fn an_announced_length_is_refused_before_its_bytes_come() {
    for (kind, number, length) in [
        (Kind::Request, 1, 1001),
        (Kind::Request, 1, usize::MAX),
        (Kind::Reply, 1, 1001),
        (Kind::Message, 5, 1006),
        (Kind::Message, u64::MAX, 1513),
        (Kind::Announced, 0, 513),
        (Kind::NoReply, 1, 1),
        (Kind::Hello, VERSION, 10 * (MAX_BYTES + 16) + 1),
    ] {
        let mut parser = Parser::new(BOUNDS);
        let header = Bytes::copy_from_slice(&header(kind, number, length));
        parser.feed(&[header]).unwrap();
        assert!(
            matches!(parser.next(), Err(Broken::Violation(_))),
            "{kind:?} {number} {length}"
        );
    }
}

#[test]
fn exactly_the_limit_passes() {
    let mut batch = Batch::default();
    let frame = Frame::Request(7, Bytes::from(vec![1; 1000]));
    write(&mut batch, &frame);
    assert_eq!(parsed(&written(&mut batch), 64, 1).unwrap(), [frame]);
}

/// These bytes are the protocol: a change of one is another version.
#[test]
fn the_bytes_of_a_request_are_pinned() {
    let mut batch = Batch::default();
    batch.frame(Kind::Request, 0x0102, &Bytes::from_static(b"hi"));
    let pinned = [4, 2, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'h', b'i'];
    assert_eq!(written(&mut batch), pinned);
}
