//! Reading the bodies of frames whose lengths were checked.

use bytes::Bytes;
use saline_protocol::transport::{Topic, TopicFilter};

use super::frame::{FrameKind, Violation};
use super::greeting::Greeting;

/// A frame as it came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Greeting(Greeting),
    Full,
    Request { id: u64, payload: Bytes },
    Reply { id: u64, payload: Bytes },
    NoReply(u64),
    Subscribe { id: u64, filters: Vec<TopicFilter> },
    Subscribed(u64),
    SubscriptionRefused(u64),
    Unsubscribe(u64),
    Publication { topic: Topic, payload: Bytes },
    Lagged { id: u64, count: u64 },
    Ping,
    Admitted,
}

/// Reads a body. `last` is the topic of the publication before, which most often comes again;
/// `payload` returns the bytes from a position to the end.
pub(super) fn decode(
    kind: FrameKind,
    body: &[u8],
    last: &mut Option<Topic>,
    payload: impl FnOnce(usize) -> Bytes,
) -> Result<Frame, Violation> {
    let id = || body.first_chunk().copied().map(u64::from_le_bytes);
    let short = Violation("a frame that is too short");
    Ok(match kind {
        FrameKind::Greeting => Frame::Greeting(Greeting::decode(body)?),
        FrameKind::Full => Frame::Full,
        FrameKind::Request => Frame::Request {
            id: id().ok_or(short)?,
            payload: payload(8),
        },
        FrameKind::Reply => Frame::Reply {
            id: id().ok_or(short)?,
            payload: payload(8),
        },
        FrameKind::NoReply => Frame::NoReply(id().ok_or(short)?),
        FrameKind::Subscribe => Frame::Subscribe {
            id: id().ok_or(short)?,
            filters: filters(body.get(8..).ok_or(short)?)?,
        },
        FrameKind::Subscribed => Frame::Subscribed(id().ok_or(short)?),
        FrameKind::SubscriptionRefused => Frame::SubscriptionRefused(id().ok_or(short)?),
        FrameKind::Unsubscribe => Frame::Unsubscribe(id().ok_or(short)?),
        FrameKind::Publication => {
            let (topic, from) = publication(body, last)?;
            Frame::Publication {
                topic,
                payload: payload(from),
            }
        }
        FrameKind::Lagged => Frame::Lagged {
            id: id().ok_or(short)?,
            count: body
                .get(8..)
                .and_then(|rest| rest.first_chunk().copied())
                .map(u64::from_le_bytes)
                .ok_or(short)?,
        },
        FrameKind::Ping => Frame::Ping,
        FrameKind::Admitted => Frame::Admitted,
    })
}

/// Returns the topic of a publication, and the position at which its payload begins.
#[inline]
pub(super) fn publication(
    body: &[u8],
    last: &mut Option<Topic>,
) -> Result<(Topic, usize), Violation> {
    let (text, rest) = text(body)?;
    let topic = match last {
        Some(last) if last.as_str().as_bytes() == text => last.clone(),
        other => other.insert(topic(text)?).clone(),
    };
    Ok((topic, body.len() - rest.len()))
}

/// Returns the text that stands behind its length, and the rest.
#[inline]
fn text(bytes: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    bytes
        .split_first_chunk()
        .and_then(|(length, rest)| rest.split_at_checked(u16::from_le_bytes(*length).into()))
        .ok_or(Violation("a topic that is cut off"))
}

fn topic(text: &[u8]) -> Result<Topic, Violation> {
    let text = std::str::from_utf8(text).ok();
    text.and_then(|text| Topic::parse(text).ok())
        .ok_or(Violation("bytes that are no topic"))
}

fn filters(bytes: &[u8]) -> Result<Vec<TopicFilter>, Violation> {
    let (count, mut rest) = bytes
        .split_first_chunk()
        .ok_or(Violation("a subscription without a count"))?;
    let count = u16::from_le_bytes(*count);
    let mut filters = Vec::new();
    for _ in 0..count {
        let (&kind, text) = rest
            .split_first()
            .ok_or(Violation("a subscription that is too short"))?;
        let (text, after) = self::text(text)?;
        let topic = topic(text)?;
        filters.push(match kind {
            0 => TopicFilter::Exact(topic),
            1 => TopicFilter::Prefix(topic),
            _ => return Err(Violation("a filter of an unknown kind")),
        });
        rest = after;
    }
    if filters.is_empty() || !rest.is_empty() {
        return Err(Violation("a subscription that is too long"));
    }
    Ok(filters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: FrameKind, body: &[u8]) -> Result<Frame, Violation> {
        decode(kind, body, &mut None, |from| {
            Bytes::copy_from_slice(&body[from..])
        })
    }

    fn subscribe(count: u16, filters: &[u8]) -> Result<Frame, Violation> {
        let body = [&7u64.to_le_bytes()[..], &count.to_le_bytes(), filters].concat();
        read(FrameKind::Subscribe, &body)
    }

    #[test]
    fn a_subscription_has_the_filters_that_it_announces() {
        let filters = vec![
            TopicFilter::Exact(Topic::parse("a").unwrap()),
            TopicFilter::Prefix(Topic::parse("bc").unwrap()),
        ];
        let bytes = b"\0\x01\0a\x01\x02\0bc";
        assert_eq!(subscribe(2, bytes), Ok(Frame::Subscribe { id: 7, filters }));
        for count in [0, 1, 3] {
            assert!(subscribe(count, bytes).is_err());
        }
        assert!(subscribe(0, b"").is_err());
        assert!(subscribe(1, b"\x02\x01\0a").is_err(), "a kind that is none");
        assert!(
            subscribe(1, b"\0\x01\0\xff").is_err(),
            "a topic that is none"
        );
        assert!(
            subscribe(1, b"\0\x02\0a").is_err(),
            "a topic that is cut off"
        );
    }

    #[test]
    fn numbers_are_read_from_their_places() {
        let body: Vec<u8> = (0..16).collect();
        let (id, count) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(
            read(FrameKind::Lagged, &body),
            Ok(Frame::Lagged { id, count })
        );
        for (kind, frame) in [
            (FrameKind::NoReply, Frame::NoReply(id)),
            (FrameKind::Subscribed, Frame::Subscribed(id)),
            (
                FrameKind::SubscriptionRefused,
                Frame::SubscriptionRefused(id),
            ),
            (FrameKind::Unsubscribe, Frame::Unsubscribe(id)),
        ] {
            assert_eq!(read(kind, &body[..8]), Ok(frame));
            assert!(read(kind, &body[..7]).is_err());
        }
        assert!(read(FrameKind::Lagged, &body[..15]).is_err());
        let payload = Bytes::copy_from_slice(&body[8..]);
        let reply = Frame::Reply { id, payload };
        assert_eq!(read(FrameKind::Reply, &body), Ok(reply));
    }

    #[test]
    fn a_topic_that_follows_itself_shares_its_text() {
        let mut last = None;
        let mut topics = Vec::new();
        for text in ["a", "a", "b", "a"] {
            let body = [&[1, 0], text.as_bytes(), b"payload"].concat();
            let (topic, from) = publication(&body, &mut last).unwrap();
            assert_eq!((topic.as_str(), from), (text, 3));
            topics.push(topic);
        }
        let text = |n: usize| topics[n].as_str().as_ptr();
        assert!(text(0) == text(1) && text(0) != text(3));
    }
}
