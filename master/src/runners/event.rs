//! `event`: fires events on the master's bus.

use saline_data::Value;
use saline_messages::{Event, EventTag};

use super::arguments::BoundArguments;
use super::error::RunnerError;
use super::function::{Function, Returned};
use super::run::Run;

pub(super) const FUNCTIONS: &[Function] =
    &[
        Function::new("send", SEND, |run, given| Box::pin(send(run, given)))
            .with(1, &["tag", "data"])
            .acts_once(),
    ];

const SEND: &str = "
Fire an event on the master's event bus, and return True. `data` is a mapping; anything else is put below
`data`. Tags of events that the master itself fires, such as `salt/job/<jid>/new`, are refused: whoever
listens must be able to rely on them.

CLI Example:

.. code-block:: bash

    saline-run event.send my/custom/event '{foo: bar}'
";

async fn send(run: &Run, given: &BoundArguments) -> Result<Returned, RunnerError> {
    let tag = given.text("tag")?.unwrap_or_default();
    if let Err(error) = Event::topic(&tag) {
        return Err(RunnerError::Arguments(format!(
            "event.send: the tag {tag:?} cannot be fired: {error}"
        )));
    }
    if EventTag::parse(&tag).is_some() {
        return Err(RunnerError::Arguments(format!(
            "event.send: events with the tag {tag:?} are the master's own: choose another tag"
        )));
    }
    let data = match given.value("data") {
        None => Vec::new(),
        Some(Value::Map(entries)) => entries.clone(),
        Some(other) => vec![("data".to_owned(), other.clone())],
    };
    run.parts.events.sent_by_operator(&tag, data).await;
    Ok(Value::Bool(true).into())
}
