//! An event as the files of the reactor see it: `tag` and `data`, in Salt's shape.

use saline_data::Value;
use saline_messages::{Event, EventTag};

/// The entries that the master puts into the data of a minion's event.
const OF_MASTER: [&str; 2] = ["id", "_stamp"];

/// Returns what templates see of the data of an event.
///
/// The event of a minion is its own data with `id`, and here `tag` and `data` stand beside them as in Salt: the tag by which
/// the minion fired it, and its own data as a whole. What it fired when it started has `data` as Salt has it.
pub(super) fn data_of(event: &Event) -> Value {
    let Some(EventTag::Minion(_, own)) = EventTag::parse(&event.tag) else {
        return event.data.clone();
    };
    let Value::Map(entries) = &event.data else {
        return event.data.clone();
    };
    let is_own = |name: &str| !OF_MASTER.contains(&name);
    let mut seen: Vec<(String, Value)> = entries.clone();
    if own == "start" {
        return Value::Map(seen);
    }
    let payload: Vec<(String, Value)> = entries
        .iter()
        .filter(|(name, _)| is_own(name))
        .cloned()
        .collect();
    seen.retain(|(name, _)| name != "tag" && name != "data");
    seen.push(("tag".to_owned(), Value::from(own)));
    seen.push(("data".to_owned(), Value::Map(payload)));
    Value::Map(seen)
}

/// Returns the party whose events are worked on in their order: the minion that fired an event or that it is about, or
/// whoever else caused it.
pub(crate) fn source_of(event: &Event) -> String {
    use saline_messages::OriginKind::{Caller, Minion};
    if matches!(event.origin.kind, Minion | Caller) {
        return format!("minion {}", event.origin.id);
    }
    match event.data.get("id").and_then(Value::as_str) {
        // The master says of which minion it tells. What others send has any id.
        Some(id) if EventTag::is_reserved(&event.tag) => format!("minion {id}"),
        _ => event.origin.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use saline_data::yaml;
    use saline_messages::{EventOrigin, MinionId};

    use super::*;

    fn event(tag: &str, data: &str) -> Event {
        Event {
            tag: tag.to_owned(),
            origin: EventOrigin::minion(&MinionId::parse("web1").unwrap()),
            data: yaml::parse(data).unwrap(),
        }
    }

    #[test]
    fn the_event_of_a_minion_has_the_shape_that_salt_gives_it() {
        let fired = event(
            "salt/minion/web1/myco/x",
            "{id: web1, tag: forged, data: 5, a: 1, _stamp: now}",
        );
        let expected =
            "{id: web1, a: 1, _stamp: now, tag: myco/x, data: {tag: forged, data: 5, a: 1}}";
        assert_eq!(data_of(&fired), yaml::parse(expected).unwrap());
        let started = event(
            "salt/minion/web1/start",
            "{id: web1, data: Minion web1 started}",
        );
        assert_eq!(data_of(&started), started.data);
        let of_master = event("salt/key", "{id: web2, act: accept}");
        assert_eq!(data_of(&of_master), of_master.data);
    }

    #[test]
    fn the_source_is_the_minion_that_an_event_is_of() {
        assert_eq!(
            source_of(&event("salt/minion/web1/x", "{id: web2}")),
            "minion web1"
        );
        let of_master = Event {
            origin: EventOrigin::master(),
            ..event("salt/auth", "{id: web2}")
        };
        assert_eq!(source_of(&of_master), "minion web2");
        let of_operator = Event {
            origin: EventOrigin::operator("root"),
            ..event("myco/x", "{id: web2}")
        };
        assert_eq!(source_of(&of_operator), "operator root");
    }
}
