//! Announces that the minion has started.

use saline_data::Value;
use saline_messages::MinionId;
use saline_protocol::transport::Clock;

use saline_modules::event_queue::EventQueue;

/// Fires `salt/minion/<id>/start`, which the master gets with the first session.
pub fn fire_minion_start(id: &MinionId, events: &EventQueue) {
    let text = format!("Minion {id} started at {}", now_as_text());
    let data = [("id", id.as_str()), ("data", &text)];
    let data = data.map(|(key, value)| (key.to_owned(), Value::from(value)));
    if let Err(error) = events.fire("start", data.into()) {
        tracing::error!("the start is not announced: {error}");
    }
}

/// Returns the time as Salt writes it, in UTC: `Sat Nov 21 10:44:36 2026`.
fn now_as_text() -> String {
    let format = time::macros::format_description!(
        "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
    );
    time::OffsetDateTime::from(Clock.wall())
        .format(format)
        .unwrap_or_default()
}
