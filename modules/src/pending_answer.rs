//! The answers of the master that functions wait for, on threads that may block.

use std::time::Duration;

use saline_data::time_span;
use saline_functions::Failure;
use saline_protocol::transport::Clock;
use tokio::sync::oneshot;

use crate::Host;
use crate::job::JobControl;

/// The shortest time before a request is sent again.
const SHORTEST_DELAY: Duration = Duration::from_millis(50);

/// The answer to a request that was sent.
#[derive(Debug)]
pub struct PendingAnswer<R>(oneshot::Receiver<Result<R, NotAnswered>>);

/// The reason why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAnswered {
    /// The request is to be sent again after this time: the master is busy, or away.
    Later(Duration),
    /// The master does not carry it out; the text says why.
    Refused(String),
}

/// What is said of an answer that no master gives to its request.
const WRONG_ANSWER: &str = "the master gave an answer to another question";

impl NotAnswered {
    /// Returns the refusal of an answer that no master gives to its request.
    pub fn wrong_answer() -> Self {
        Self::Refused(WRONG_ANSWER.to_owned())
    }
}

/// Returns the failure of a function that got an answer that no master gives to its request.
pub(crate) fn wrong_answer() -> Failure {
    Failure::Execution(WRONG_ANSWER.to_owned())
}

impl<R> PendingAnswer<R> {
    /// Returns the answer that comes over this channel.
    pub fn over(channel: oneshot::Receiver<Result<R, NotAnswered>>) -> Self {
        Self(channel)
    }

    /// Waits for the answer. Blocks the thread.
    fn wait(self) -> Result<R, NotAnswered> {
        // The sender went with the minion's tasks.
        self.0
            .blocking_recv()
            .unwrap_or(Err(NotAnswered::Later(Duration::ZERO)))
    }
}

impl Host {
    /// Waits for an answer, and has `send` send the request again while the master is busy or away.
    ///
    /// # Errors
    /// When the master refuses the request or gives no answer `within` this time, when the minion stops, and when the job is
    /// ended.
    pub(crate) fn answer_or_again<R>(
        &self,
        job: &JobControl,
        within: Duration,
        first: PendingAnswer<R>,
        mut send: impl FnMut() -> PendingAnswer<R>,
    ) -> Result<R, Failure> {
        let clock = Clock;
        let end = clock.after(within);
        let mut pending = first;
        loop {
            let delay = match pending.wait() {
                Ok(reply) => return Ok(reply),
                Err(NotAnswered::Later(delay)) => delay,
                Err(NotAnswered::Refused(why)) => return Err(Failure::Execution(why)),
            };
            if clock.now() > end {
                return Err(Failure::Execution(format!(
                    "the master did not answer for {}",
                    time_span::write(within)
                )));
            }
            // Ends with the job and with the minion.
            self.wait(job, delay.max(SHORTEST_DELAY))?;
            pending = send();
        }
    }
}
