//! The questions about the pillar that a function on its thread has, and that the caller's session answers.

use std::time::Duration;

use saline_messages::{MAX_PART, PillarReply, PillarRequest};
use saline_modules::pillar::MasterPillar;
use saline_modules::{Host, NotAnswered, PendingAnswer};
use tokio::sync::{mpsc, oneshot};

use super::master::CallerSession;

/// The most questions that wait. A function asks one, and waits for its answer.
const MAX_WAITING: usize = 8;

/// A question that waits for its answer.
#[derive(Debug)]
struct Question {
    request: PillarRequest,
    within: Duration,
    answer: oneshot::Sender<Result<PillarReply, NotAnswered>>,
}

/// The questions of functions; without a master there are none.
#[derive(Debug, Default)]
pub(super) struct PillarQuestions {
    waiting: Option<mpsc::Receiver<Question>>,
    asked: Option<Question>,
}

impl PillarQuestions {
    /// Lets the functions of this host ask.
    pub(super) fn of(host: &Host) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        // Nobody else sets it.
        let _ = host.master_pillar.set(Box::new(Questions(sender)));
        Self {
            waiting: Some(receiver),
            asked: None,
        }
    }

    /// Waits for a question and has the master answer it.
    ///
    /// # Cancel safety
    /// A question whose answer was being waited for is asked again by the next call.
    pub(super) async fn answer_next(&mut self, master: Option<&mut CallerSession>, host: &Host) {
        let (Some(waiting), Some(master)) = (&mut self.waiting, master) else {
            return std::future::pending().await;
        };
        if self.asked.is_none() {
            self.asked = waiting.recv().await;
        }
        let Some(question) = &self.asked else {
            // The host lives longer than this.
            return std::future::pending().await;
        };
        let answer = master
            .ask_about_pillar(host, question.request.clone(), question.within)
            .await;
        if let Some(question) = self.asked.take() {
            // An error means that nobody waits any more.
            let _ = question.answer.send(answer);
        }
    }
}

/// Hands questions to the task that has the session.
#[derive(Debug)]
struct Questions(mpsc::Sender<Question>);

impl MasterPillar for Questions {
    fn send(&self, request: PillarRequest, within: Duration) -> PendingAnswer<PillarReply> {
        let (answer, receiver) = oneshot::channel();
        // What finds no room is asked again.
        let _ = self.0.try_send(Question {
            request,
            within,
            answer,
        });
        PendingAnswer::over(receiver)
    }

    fn part_size(&self) -> u32 {
        u32::try_from(MAX_PART / 4).unwrap_or(u32::MAX)
    }
}
