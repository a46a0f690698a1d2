//! `event`: fires events on the master's bus.

use saline_data::Value;
use saline_functions::{Failure, function};
use saline_messages::{Event, EventTag};

use super::Functions;
use super::run::Run;

pub(super) const FUNCTIONS: Functions = &[&SEND];

/// Fires an event on the master's bus and returns True. `data` is a mapping; any other value is put below the key `data`.
/// Tags of the master's own events, such as `salt/job/<jid>/new`, are refused, so that listeners can rely on them.
///
/// CLI Example:
///
///     saline-run event.send my/custom/event '{foo: bar}'
#[function(acts_once)]
async fn send(run: &Run, tag: String, #[default(None)] data: Value) -> Result<bool, Failure> {
    if let Err(error) = Event::topic(&tag) {
        return Err(Failure::Invocation(format!(
            "event.send: the tag {tag:?} cannot be fired: {error}"
        )));
    }
    if EventTag::parse(&tag).is_some() {
        return Err(Failure::Invocation(format!(
            "event.send: events with the tag {tag:?} are the master's own: choose another tag"
        )));
    }
    let data = match data {
        Value::Null => Vec::new(),
        Value::Map(entries) => entries,
        other => vec![("data".to_owned(), other)],
    };
    run.parts
        .events
        .sent_by_operator(&run.operator, &tag, data)
        .await;
    Ok(true)
}
