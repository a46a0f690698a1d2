//! `event`: fires events on the master's bus.

use saline_data::Value;

use super::{Call, Failure, Function, Module, Outcome, optional, required};

/// The module `event`.
#[derive(Debug)]
pub struct Event;

impl Module for Event {
    fn name(&self) -> &'static str {
        "event"
    }

    fn functions(&self) -> &'static [Function] {
        FUNCTIONS
    }
}

const FUNCTIONS: &[Function] = &[
    Function::new("send", SEND, send)
        .with(&[required("tag"), optional("data")])
        .with_more_named(),
    Function::new("fire_master", FIRE_MASTER, fire_master)
        .with(&[required("data"), required("tag")]),
];

const SEND: &str = "
Send an event to the master. Its tag is `salt/minion/<id>/` followed by the given one, so that no minion
can fire an event of another one or of the master.

tag
    The end of the tag.

data
    A mapping. Further `name=value` arguments are added to it.

Returns `True` when the event is queued. It is lost if the minion stops before the master has taken it.

CLI Example:

.. code-block:: bash

    saline '*' event.send myco/mytag foo=Foo bar=Bar
";

fn send(call: &Call<'_>) -> Result<Outcome, Failure> {
    let mut data = entries(call.value("data"))?;
    data.extend(call.named.iter().cloned());
    fire(call, data)
}

const FIRE_MASTER: &str = "
Send an event to the master, as `event.send` does, with the arguments in Salt's older order.

CLI Example:

.. code-block:: bash

    saline '*' event.fire_master '{data: \"my event data\"}' 'tag'
";

fn fire_master(call: &Call<'_>) -> Result<Outcome, Failure> {
    fire(call, entries(call.value("data"))?)
}

fn entries(data: Option<&Value>) -> Result<Vec<(String, Value)>, Failure> {
    match data {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Map(entries)) => Ok(entries.clone()),
        Some(_) => Err(Failure::Invocation("data must be a mapping".to_owned())),
    }
}

fn fire(call: &Call<'_>, data: Vec<(String, Value)>) -> Result<Outcome, Failure> {
    let tag = call.text("tag")?.unwrap_or_default();
    match call.host.events.fire(&tag, data) {
        Ok(()) => Ok(true.into()),
        Err(error) => Err(Failure::Execution(error.to_string())),
    }
}
