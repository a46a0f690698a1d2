//! Takes the events that programs on this machine fire: each is a request whose payload is a MessagePack mapping of a `tag` and of
//! `data`, and its answer a mapping with `result`, and with `error` if the event was refused.

use std::sync::atomic::Ordering;

use saline_data::{MAX_DEPTH, MAX_VALUES, Packed, Value, unpack_within};
use saline_messages::{EventOrigin, MAX_EVENT_DATA};
use saline_modules::local_events::{LocalEvent, LocalEvents, LocalSource};
use saline_protocol::transport::{Peer, Requests, Source};

use super::Counts;

/// The largest request, in bytes: the data, and a tag.
const MAX_REQUEST: usize = MAX_EVENT_DATA + 4 * 1024;

/// Takes events until the minion stops. None is waited for: what has no room is refused, so no program holds up another.
pub(super) async fn take(mut requests: Box<dyn Requests>, events: &LocalEvents, counts: &Counts) {
    while let Some(request) = requests.next().await {
        let taken = read(&request.peer, &request.payload).and_then(|event| {
            let source = LocalSource::Connection(request.peer.connection);
            events
                .push(source, event)
                .map_err(|error| error.to_string())
        });
        let answer = match taken {
            Ok(()) => Value::map([("result", Value::Bool(true))]),
            Err(why) => {
                counts.refused.fetch_add(1, Ordering::Relaxed);
                Value::map([("result", Value::Bool(false)), ("error", Value::from(why))])
            }
        };
        let answer = Packed::pack(&answer);
        // An error means that the program has gone, or takes no answer of this size.
        let _ = request.reply.send(answer.into_bytes());
    }
}

/// Reads the event of a request.
fn read(peer: &Peer, payload: &[u8]) -> Result<LocalEvent, String> {
    if payload.len() > MAX_REQUEST {
        return Err(format!(
            "an event has at most {MAX_EVENT_DATA} bytes of data, and this request {} bytes",
            payload.len()
        ));
    }
    let value = unpack_within(payload, MAX_DEPTH, MAX_VALUES).map_err(|error| error.to_string())?;
    let tag = value.get("tag").and_then(Value::as_str);
    let tag = tag.ok_or("an event is a mapping with a tag, which is a text")?;
    let data = match value.get("data") {
        None => Value::Map(Vec::new()),
        Some(data @ Value::Map(_)) => data.clone(),
        Some(_) => return Err("the data of an event are a mapping".to_owned()),
    };
    Ok(LocalEvent {
        tag: tag.to_owned(),
        origin: origin(peer.source),
        data: Packed::pack(&data),
    })
}

/// Returns the origin of what a program fires, by the user that it runs as.
fn origin(source: Source) -> EventOrigin {
    match source {
        Source::User(0) => EventOrigin::local_user("root"),
        Source::User(number) => EventOrigin::local_user(&number.to_string()),
        // A transport that does not tell who its peers are: only root and the minion's user come here.
        _ => EventOrigin::local_user(""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PEER: Peer = Peer::new(1, Source::User(0));

    fn read_value(value: &Value) -> Result<LocalEvent, String> {
        read(&PEER, Packed::pack(value).as_bytes())
    }

    #[test]
    fn an_event_is_read_and_everything_else_is_refused_with_a_reason() {
        let data = Value::map([("a", Value::Int(1))]);
        let event = Value::map([("tag", Value::from("my/tag")), ("data", data.clone())]);
        let read_event = read_value(&event).unwrap();
        assert_eq!(
            (read_event.tag.as_str(), read_event.data.unpack().unwrap()),
            ("my/tag", data)
        );
        assert_eq!(read_event.origin, EventOrigin::local_user("root"));
        for (value, why) in [
            (Value::Null, "an event is a mapping with a tag"),
            (
                Value::map([("tag", Value::Int(1))]),
                "an event is a mapping with a tag",
            ),
            (
                Value::map([("tag", Value::from("a")), ("data", Value::Int(1))]),
                "the data of an event are a mapping",
            ),
            (
                Value::map([("tag", Value::from("x".repeat(80_000)))]),
                "an event has at most 65536 bytes of data",
            ),
        ] {
            let said = read_value(&value).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&PEER, &bytes);
        }
    }
}
