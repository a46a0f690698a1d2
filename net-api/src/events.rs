//! The stream of events to a client, as server-sent events.
//!
//! The body is written by hand: Salt's clients expect a field `tag:` in each event, and no `event:`, without which browsers call
//! `onmessage`. Each stream asks the master for itself, and holds one page of events at most beside those that its client has
//! not taken: a slow client costs its own buffer, and misses what the master no longer keeps.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use saline_client::data::{Value, json};
use saline_client::messages::{Event, EventCursor, EventsPage, EventsRequest, MAX_EVENTS_WAIT};
use saline_client::transport::Clock;
use saline_client::{Client, ClientError};
use tokio::sync::mpsc;

use crate::event_streams::StreamPlace;

/// The number of pages that wait for a slow client.
const BUFFERED_PAGES: usize = 2;

/// The pause after the master did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// The tag of the event that tells of a gap.
const GAP: &str = "salt/netapi/gap";

/// The text of an event stream.
#[derive(Debug)]
pub(crate) struct EventBody(mpsc::Receiver<Bytes>);

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let received = self.0.poll_recv(task);
        received.map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

/// A stream of events that has begun.
#[derive(Debug)]
pub(crate) struct EventStream {
    client: Client,
    /// The first page, with which the master confirmed that the user may read events.
    first: EventsPage,
    clock: Clock,
    place: StreamPlace,
}

impl EventStream {
    /// Begins a stream, after the event that the client had last or from now on.
    ///
    /// # Errors
    /// As the master refuses it.
    pub(crate) async fn begin(
        client: Client,
        after: Option<EventCursor>,
        clock: Clock,
        place: StreamPlace,
    ) -> Result<Self, ClientError> {
        let first = client.events_after(request(after, 0)).await?;
        Ok(Self {
            client,
            first,
            clock,
            place,
        })
    }

    /// Returns the body, and the task that fills it until the client goes or its login ends.
    pub(crate) fn into_body(self) -> (EventBody, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(BUFFERED_PAGES);
        (EventBody(receiver), self.fill(sender))
    }

    async fn fill(self, sender: mpsc::Sender<Bytes>) {
        let mut text = "retry: 400\n".to_owned();
        let mut cursor = self.first.next;
        write_page(&mut text, &self.first);
        loop {
            if sender.send(Bytes::from(text)).await.is_err() {
                return;
            }
            // Each request proves the login again.
            let asked = self.clock.now();
            let page = self
                .client
                .events_after(request(Some(cursor), MAX_EVENTS_WAIT));
            let page = tokio::select! {
                () = sender.closed() => return,
                page = page => page,
            };
            text = String::new();
            match page {
                Ok(page) => {
                    cursor = page.next;
                    write_page(&mut text, &page);
                    // The master gave the place of this request to somebody else, who would lose it at once.
                    if text.is_empty() && self.clock.now() < asked + PAUSE {
                        self.clock.pause(PAUSE).await;
                    }
                }
                // The stream stays: a browser whose stream is refused does not come again.
                Err(error) if is_away(&error) => {
                    tracing::debug!("an event stream waits for the master: {error}");
                    self.clock.pause(PAUSE).await;
                }
                // The login, the API's key or its session was refused, and stays refused.
                Err(error) => {
                    tracing::info!(
                        "an event stream of user {} ends: {error}",
                        self.place.user()
                    );
                    return;
                }
            }
            if text.is_empty() {
                // A comment, by which a client that is gone is noticed.
                text.push_str(":\n\n");
            }
        }
    }
}

/// Whether the master may answer later what it did not answer now, without anybody letting the user or the API in again.
fn is_away(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::MasterDown { .. }
            | ClientError::MasterGone { .. }
            | ClientError::MasterUnreachable { .. }
            | ClientError::NeverStarted { .. }
            | ClientError::Failed(_)
            | ClientError::Transport(_)
            | ClientError::Channel(_)
    )
}

fn request(after: Option<EventCursor>, wait_ms: u32) -> EventsRequest {
    EventsRequest {
        after,
        prefixes: Vec::new(),
        wait_ms,
    }
}

/// Writes the events of a page.
fn write_page(text: &mut String, page: &EventsPage) {
    let at = |number| EventCursor {
        start: page.next.start,
        number,
    };
    if page.gap {
        let before = page
            .events
            .first()
            .map_or(page.next.number, |(first, _)| first.saturating_sub(1));
        write_event(text, at(before), GAP, &Value::Map(Vec::new()));
    }
    for (number, event) in &page.events {
        match Event::decode(event) {
            Ok(event) => write_event(text, at(*number), &event.tag, &event.data),
            Err(error) => tracing::warn!("ignored a malformed event of the master: {error}"),
        }
    }
}

/// Writes an event. No line of it can be taken for another: control characters are escaped in JSON, and left out of the tag.
fn write_event(text: &mut String, at: EventCursor, tag: &str, data: &Value) {
    let whole = Value::map([("tag", Value::from(tag)), ("data", data.clone())]);
    let whole = json::line(&whole);
    text.push_str("id: ");
    text.push_str(&write_id(at));
    text.push_str("\ntag: ");
    text.extend(tag.chars().filter(|character| !character.is_control()));
    text.push_str("\ndata: ");
    text.push_str(&String::from_utf8_lossy(&whole));
    text.push_str("\n\n");
}

/// Writes the id of an event.
fn write_id(at: EventCursor) -> String {
    format!("{:016x}-{}", at.start, at.number)
}

/// Reads what `Last-Event-ID` holds.
pub(crate) fn parse_id(text: &str) -> Option<EventCursor> {
    let (start, number) = text.split_once('-')?;
    let is_start = start.len() == 16 && start.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
    (is_start && is_number).then_some(())?;
    Some(EventCursor {
        start: u64::from_str_radix(start, 16).ok()?,
        number: number.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use saline_client::messages::EventOrigin;

    use super::*;

    fn page(gap: bool, tags: &[&str]) -> EventsPage {
        let events = tags.iter().zip(41..).map(|(tag, number)| {
            let event = Event {
                tag: (*tag).to_owned(),
                origin: EventOrigin::master(),
                data: Value::map(
                    [("text", "a\n\nid: 9\u{2028}")].map(|(name, text)| (name, Value::from(text))),
                ),
            };
            (number, event.encode())
        });
        EventsPage {
            events: events.collect(),
            next: EventCursor {
                start: 0xab,
                number: 40 + tags.len() as u64,
            },
            gap,
        }
    }

    #[test]
    fn an_event_is_written_as_clients_of_salt_read_it() {
        let mut text = String::new();
        write_page(&mut text, &page(false, &["salt/job/1/new"]));
        assert_eq!(
            text,
            "id: 00000000000000ab-41\ntag: salt/job/1/new\ndata: {\"tag\": \"salt/job/1/new\", \"data\": {\"text\": \
             \"a\\n\\nid: 9\\u2028\"}}\n\n"
        );
    }

    #[test]
    fn a_stream_waits_for_a_master_that_is_away_and_for_nobody_who_refuses_it() {
        let (endpoint, name) = ("tcp:master:4506".to_owned(), "web".to_owned());
        assert!(is_away(&ClientError::MasterGone {
            endpoint: endpoint.clone(),
            gone: PAUSE,
        }));
        assert!(!is_away(&ClientError::ApiKeyPending {
            endpoint,
            name,
            fingerprint: String::new(),
        }));
        assert!(!is_away(&ClientError::NotLoggedIn));
        assert!(!is_away(&ClientError::Closed));
    }

    #[test]
    fn a_gap_comes_before_the_events_behind_it() {
        let mut text = String::new();
        write_page(&mut text, &page(true, &["a"]));
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(events.len(), 2);
        assert!(events[0].starts_with("id: 00000000000000ab-40\ntag: salt/netapi/gap\n"));
        assert!(events[1].starts_with("id: 00000000000000ab-41\n"));
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let at = EventCursor {
            start: u64::MAX,
            number: 7,
        };
        assert_eq!(parse_id(&write_id(at)), Some(at));
        for text in [
            "",
            "7",
            "-7",
            "ff-7",
            "00000000000000ab-",
            "00000000000000ab-+7",
            "+0000000000000ab-7",
        ] {
            assert_eq!(parse_id(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_tag_and_no_data_break_out_of_their_event(tag in any::<String>(), value in saline_client::data::arbitrary::values()) {
            let mut text = String::new();
            let at = EventCursor { start: 1, number: 1 };
            write_event(&mut text, at, &tag, &value);
            prop_assert_eq!(text.matches("\n\n").count(), 1);
            prop_assert_eq!(text.lines().count(), 4);
            prop_assert!(!text.contains('\r'));
        }
    }
}
