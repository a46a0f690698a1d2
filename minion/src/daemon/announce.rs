//! Fires the event that the minion has started.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use saline_protocol::message::{Class, MinionId, MinionRequest, Packed, RequestId, Value};
use saline_protocol::transport::{Clock, Context};

use super::master_session::{AskError, MasterSession};

/// How long the master may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before the master is asked again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Fires `salt/minion/<id>/start`, once in a process.
#[derive(Debug)]
pub struct StartAnnouncer {
    id: MinionId,
    announced: Arc<AtomicBool>,
}

impl StartAnnouncer {
    /// Creates an announcer that has fired nothing yet.
    pub fn new(id: MinionId) -> Self {
        Self {
            id,
            announced: Arc::default(),
        }
    }

    /// Starts to announce the start over `session`, unless that is done; the task belongs to
    /// `context`.
    pub fn announce(&self, context: &Context, session: &Arc<MasterSession>) {
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
        let (announced, session) = (Arc::clone(&self.announced), Arc::clone(session));
        let clock = context.clock;
        context.spawn(async move {
            loop {
                match session.ask(Class::Event, &request, ANSWER_TIMEOUT).await {
                    Ok(_) => return announced.store(true, Ordering::Relaxed),
                    Err(AskError::Ended | AskError::Refused(_)) => return,
                    Err(error) => tracing::debug!("the start was not announced: {error}"),
                }
                clock.pause(RETRY_DELAY).await;
            }
        });
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
