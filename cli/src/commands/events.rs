//! `state.event`: the master's event bus, live.

use std::io;

use saline_client::{BusEvent, Client, EventFilter};
use saline_config::parse_arguments;
use saline_data::printable::escape_line;
use saline_functions::{BoundArguments, Parameters, parameters};
use saline_messages::Event;
use saline_protocol::transport::Lost;

use super::failed;
use crate::exit;
use crate::glob::Glob;
use crate::screen::Screen;
use saline_data::json;

/// The parameters of `state.event`.
#[parameters]
struct Asked {
    #[default("*")]
    tagmatch: String,
    /// Without an end if it is negative.
    #[default(-1)]
    count: i64,
    #[default(false)]
    pretty: bool,
    #[default(false)]
    origin: bool,
}

/// The arguments of `state.event`.
#[derive(Debug, Clone)]
pub(crate) struct EventArguments {
    tags: Glob,
    filter: EventFilter,
    /// The number of events after which to end.
    count: Option<u64>,
    /// Whether events are printed over several lines.
    pretty: bool,
    /// Whether the origin of each event is printed, between its tag and its data.
    origin: bool,
}

impl EventArguments {
    /// Parses `[tagmatch] [count] [pretty=True]`, with Salt's names and order, and `origin=True`, which is ours.
    ///
    /// # Errors
    /// One line that names the mistake.
    pub(crate) fn read(words: &[String]) -> Result<Self, String> {
        let bound = BoundArguments::bind("event", Asked::PARAMETERS, parse_arguments(words), &[]);
        let asked = bound.and_then(|mut bound| Asked::take(&mut bound));
        let asked = asked.map_err(|error| format!("state.event: {error}"))?;
        Ok(Self {
            tags: Glob::one(&asked.tagmatch)?,
            filter: below(&asked.tagmatch),
            count: u64::try_from(asked.count).ok(),
            pretty: asked.pretty,
            origin: asked.origin,
        })
    }

    fn line(&self, event: &Event) -> Vec<u8> {
        let mut line = format!("{}\t", escape_line(&event.tag)).into_bytes();
        if self.origin {
            line.extend(json::line(&event.origin.to_value()));
            line.push(b'\t');
        }
        line.extend(if self.pretty {
            json::pretty(&json::sorted(&event.data), None)
        } else {
            json::line(&event.data)
        });
        line
    }
}

/// Returns a filter of the whole segments that every matching tag begins with, so that the master
/// need not send other events.
fn below(glob: &str) -> EventFilter {
    let literal = glob.split(['*', '?', '[', '{']).next().unwrap_or_default();
    let whole = match literal.rsplit_once('/') {
        Some((whole, _)) => whole,
        None => return EventFilter::All,
    };
    EventFilter::Below(whole.to_owned())
}

/// Prints events until the count is reached, or Ctrl-C.
///
/// # Errors
/// When the output cannot be written.
pub(crate) async fn follow(
    screen: &mut Screen<'_>,
    client: &Client,
    wanted: &EventArguments,
) -> io::Result<u8> {
    let mut events = match client.events(&wanted.filter).await {
        Ok(events) => events,
        Err(error) => return Ok(failed(screen, &error)),
    };
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    let mut left = wanted.count.unwrap_or(u64::MAX);
    while left > 0 {
        let next = tokio::select! {
            biased;
            _ = &mut interrupt => {
                screen.note("\nExiting gracefully on Ctrl-c");
                return Ok(exit::FAILED);
            }
            next = events.next() => next,
        };
        match next {
            Some(BusEvent::Event(event)) if wanted.tags.matches(&event.tag) => {
                screen.line(wanted.line(&event))?;
                left -= 1;
            }
            Some(BusEvent::Event(_)) => {}
            Some(BusEvent::Lost(Lost::Messages(n))) => {
                screen.note(format!(
                    "{n} events were lost here: this listener reads too slowly"
                ));
            }
            Some(BusEvent::Lost(Lost::Unknown)) => screen.note("events were lost here"),
            Some(BusEvent::Disconnected) => {
                screen.note("the master is away: waiting for it");
            }
            Some(BusEvent::Connected) => {
                screen.note("the master is back: events that it fired meanwhile were missed");
            }
            None => break,
        }
    }
    Ok(exit::GOOD)
}

#[cfg(test)]
mod tests {
    use saline_data::Value;
    use saline_messages::{EventOrigin, MinionId};

    use super::*;

    fn wanted(words: &[&str]) -> EventArguments {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        EventArguments::read(&words).unwrap()
    }

    fn shown(words: &[&str]) -> String {
        let event = Event {
            tag: "salt/job/20261121091814817821/ret/m000".to_owned(),
            origin: EventOrigin::minion(&MinionId::parse("m000").unwrap()),
            data: Value::map([
                ("fun", "test.ping".into()),
                ("fun_args", Value::List(vec![Value::Int(1), Value::Null])),
                ("_stamp", "2026-11-21T09:18:14.997628+00:00".into()),
                ("return", "ä".into()),
            ]),
        };
        String::from_utf8(wanted(words).line(&event))
            .unwrap()
            .replace('\t', "→")
    }

    #[test]
    fn lines() {
        insta::assert_snapshot!(shown(&[]), @r#"salt/job/20261121091814817821/ret/m000→{"fun": "test.ping", "fun_args": [1, null], "_stamp": "2026-11-21T09:18:14.997628+00:00", "return": "ä"}"#);
        insta::assert_snapshot!(shown(&["origin=True"]), @r#"salt/job/20261121091814817821/ret/m000→{"kind": "minion", "id": "m000"}→{"fun": "test.ping", "fun_args": [1, null], "_stamp": "2026-11-21T09:18:14.997628+00:00", "return": "ä"}"#);
        insta::assert_snapshot!(shown(&["pretty=True"]), @r#"
        salt/job/20261121091814817821/ret/m000→{
            "_stamp": "2026-11-21T09:18:14.997628+00:00",
            "fun": "test.ping",
            "fun_args": [
                1,
                null
            ],
            "return": "ä"
        }
        "#);
    }

    #[test]
    fn the_bus_filters_what_it_can() {
        for (glob, filter) in [
            ("*", EventFilter::All),
            ("salt*", EventFilter::All),
            ("salt/job/*/ret/*", EventFilter::Below("salt/job".into())),
            ("salt/auth", EventFilter::Below("salt".into())),
        ] {
            assert_eq!(below(glob), filter, "{glob}");
        }
        let wanted = wanted(&["salt/job/*/ret/*", "count=2"]);
        assert_eq!(wanted.count, Some(2));
        assert!(wanted.tags.matches("salt/job/1/ret/m"));
        assert!(!wanted.tags.matches("salt/job/1/new"));
    }

    #[test]
    fn arguments_that_do_not_fit_are_told() {
        let told = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            EventArguments::read(&words).unwrap_err()
        };
        assert_eq!(
            told(&["count=x"]),
            "state.event: event() expects a whole number as 'count', not \"x\""
        );
        assert_eq!(
            told(&["*", "1", "True", "True", "x"]),
            "state.event: event() takes from 0 to 4 positional arguments but 5 were given"
        );
    }
}
