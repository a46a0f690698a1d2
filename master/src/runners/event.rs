//! `event`: fires events on the master's bus, reads those that were kept, and forgets a reader of them.

use saline_data::Value;
use saline_functions::{Failure, function};
use saline_messages::{Event, EventTag};

use crate::events::{Acknowledged, EventCursor, EventReader, REACTOR, ReadEvent, ReadPage};

use super::Functions;
use super::run::Run;

pub(super) const FUNCTIONS: Functions = &[&FORGET, &READ, &SEND];

/// Fires an event on the master's bus and returns True. `data` is a mapping; any other value is put below the key `data`.
/// Tags that begin with `salt/`, in any case of letters, are refused: the master alone fires such events, so that listeners can
/// rely on them. `salt/netapi/hook` and those below it are for hooks of the HTTP API, and for whoever may call this function.
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
    if EventTag::is_reserved(&tag) && !EventTag::is_hook(&tag) {
        return Err(Failure::Invocation(format!(
            "event.send: the tag {tag:?} begins with \"salt\", and such events are the master's own: choose another tag"
        )));
    }
    let data = match data {
        Value::Null => Vec::new(),
        Value::Map(entries) => entries,
        other => vec![("data".to_owned(), other)],
    };
    let sent = run
        .parts
        .events
        .sent_by(run.principal.event_origin(), &tag, data);
    sent.await.map_err(|error| {
        Failure::Execution(format!(
            "event.send: {tag} was fired, but the store of events did not take it: {error}"
        ))
    })?;
    Ok(true)
}

/// Refuses the name under which the reactor has its place.
fn refuse_reactor(fun: &str, consumer: &str) -> Result<(), Failure> {
    match consumer == REACTOR {
        true => Err(Failure::Invocation(format!(
            "{fun}: {REACTOR:?} is the master's own reactor: choose another name"
        ))),
        false => Ok(()),
    }
}

/// The bytes of the events that one call returns, about.
const PAGE: usize = 1024 * 1024;

/// Returns events that the master keeps on its disk (`durable_events`), the oldest first, also those that were fired while
/// nobody listened: `events`, `more` when there are further ones, and `next`, the place to go on from. Publications and
/// returns of jobs are among them if `durable_events` matches their tags. Where events were lost because they were too many
/// or too old, or since the disk was full, an entry has their number as `lost`.
///
/// after
///     The place to go on from, as the call before returned it as `next`. Without it: from the beginning.
///
/// consumer
///     The name of a reader whose place the master keeps. With `after` the master notes that the reader is done with
///     everything before that place; without `after` it goes on from the place that was noted last. So an event is read
///     again until the reader is done with it. `event.forget` ends that.
///
/// CLI Example:
///
///     saline-run event.read
///     saline-run event.read after=1795472700000000-1795472700000001
///     saline-run event.read consumer=inventory
#[function]
async fn read(
    run: &Run,
    after: Option<String>,
    consumer: Option<String>,
) -> Result<Value, Failure> {
    run.check_sees_all("event.read")?;
    if let Some(consumer) = &consumer {
        refuse_reactor("event.read", consumer)?;
    }
    let reader = &reader(run)?;
    let after = match after {
        None => None,
        Some(place) => Some(parse(&place).ok_or_else(|| {
            Failure::Invocation(format!(
                "event.read: after={place:?} is not a place: give what an earlier call returned as next"
            ))
        })?),
    };
    let after = match (after, consumer) {
        (Some(after), Some(consumer)) => {
            acknowledge(reader, consumer, after).await?;
            after
        }
        (Some(after), None) => after,
        (None, Some(consumer)) => reader.cursor(consumer).await?,
        (None, None) => EventCursor::default(),
    };
    let ReadPage { events, next, more } = reader.read(after, PAGE).await?;
    Ok(Value::map([
        (
            "events",
            Value::List(events.into_iter().map(shown).collect()),
        ),
        ("more", Value::Bool(more)),
        (
            "next",
            Value::from(format!("{}-{}", next.event, next.receipt)),
        ),
    ]))
}

/// Forgets a reader whose place the master keeps (`event.read consumer=`), and returns True. If it reads again, it begins
/// with the oldest event.
///
/// consumer
///     The name of the reader.
///
/// test
///     Only return whether the reader is known.
///
/// CLI Example:
///
///     saline-run event.forget inventory
#[function(changes)]
async fn forget(
    run: &Run,
    consumer: String,
    #[default(false)] test: bool,
) -> Result<bool, Failure> {
    run.check_sees_all("event.forget")?;
    refuse_reactor("event.forget", &consumer)?;
    let reader = reader(run)?;
    let known = reader.consumers().await?;
    if test {
        return Ok(known.contains(&consumer));
    }
    match reader.forget(consumer.clone()).await? {
        true => Ok(true),
        false => Err(Failure::Execution(format!(
            "event.forget: there is no consumer {consumer:?}; known are: {}",
            known.join(", ")
        ))),
    }
}

fn reader(run: &Run) -> Result<EventReader, Failure> {
    run.parts.event_reader().ok_or_else(|| {
        let why = "no events are kept: set durable_events, and send the master SIGHUP";
        Failure::Execution(why.to_owned())
    })
}

async fn acknowledge(
    reader: &EventReader,
    consumer: String,
    after: EventCursor,
) -> Result<(), Failure> {
    match reader.acknowledge(consumer.clone(), after).await? {
        Acknowledged::Noted => Ok(()),
        Acknowledged::Beyond => Err(Failure::Invocation(format!(
            "event.read: after={}-{} is beyond the last event: give what an earlier call returned as next, or no place to \
             read from the beginning",
            after.event, after.receipt
        ))),
        Acknowledged::NoPlace => Err(Failure::Execution(format!(
            "event.read: the place of consumer {consumer:?} is not kept: a name has 1 to 64 characters, and 64 consumers may \
             have one; saline-run event.forget ends one of these"
        ))),
    }
}

fn parse(place: &str) -> Option<EventCursor> {
    let (event, receipt) = place.split_once('-')?;
    Some(EventCursor {
        event: event.parse().ok().filter(|number| *number >= 0)?,
        receipt: receipt.parse().ok().filter(|number| *number >= 0)?,
    })
}

fn shown(read: ReadEvent) -> Value {
    let number = ("number", Value::Int(read.number));
    match read.event {
        Ok(event) => Value::map([
            number,
            ("tag", Value::from(event.tag)),
            ("origin", event.origin.to_value()),
            ("data", event.data),
        ]),
        Err(lost) => Value::map([number, ("lost", Value::from(lost))]),
    }
}
