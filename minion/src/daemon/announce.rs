//! The event that says that the minion is there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saline_protocol::message::{Class, MinionRequest, Packed, RequestId, Value};
use saline_protocol::transport::{Clock, Context};

use super::Minion;
use super::link::{AskError, Link};

/// How long the master may take, and how long to wait before it is asked again.
const ANSWER: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(1);

impl Minion {
    /// Fires `salt/minion/<id>/start`, once in a process.
    pub(super) fn announce(self: &Arc<Self>, context: &Context, link: &Arc<Link>) {
        if self.announced.load(Ordering::Relaxed) {
            return;
        }
        let Ok(request_id) = RequestId::random() else {
            tracing::error!("the system has no randomness: the start is not announced");
            return;
        };
        let text = format!("Minion {} started at {}", self.id, now_as_text());
        let data = Value::map([
            ("id", Value::from(self.id.as_str())),
            ("data", Value::from(text)),
        ]);
        let request = MinionRequest::FireEvent {
            request_id,
            tag: "start".to_owned(),
            data: Packed::pack(&data),
        };
        let (this, link) = (Arc::clone(self), Arc::clone(link));
        context.spawn(async move {
            loop {
                match link.ask(Class::Event, &request, ANSWER).await {
                    Ok(_) => return this.announced.store(true, Ordering::Relaxed),
                    Err(AskError::Ended | AskError::Refused(_)) => return,
                    Err(error) => tracing::debug!("the start was not announced: {error}"),
                }
                this.context.clock.pause(AGAIN).await;
            }
        });
    }
}

/// Now, as Salt writes it: `Sat Nov 21 10:44:36 2026`, in UTC.
fn now_as_text() -> String {
    let format = time::macros::format_description!(
        "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
    );
    time::OffsetDateTime::from(Clock.wall())
        .format(format)
        .unwrap_or_default()
}
