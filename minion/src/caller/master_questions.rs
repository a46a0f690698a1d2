//! The questions about the pillar and the mine that a function on its thread has, and that the caller's session answers.

use std::time::Duration;

use saline_messages::{
    CallerReply, CallerRequest, MAX_PART, MineReply, MineRequest, PillarReply, PillarRequest,
};
use saline_modules::mine::MasterMine;
use saline_modules::pillar::MasterPillar;
use saline_modules::{Host, NotAnswered, PendingAnswer};
use tokio::sync::{mpsc, oneshot};

use super::master::CallerSession;

/// The most questions that wait. A function asks one, and waits for its answer.
const MAX_WAITING: usize = 8;

/// A question that waits for its answer.
#[derive(Debug)]
struct Question {
    request: CallerRequest,
    within: Duration,
    answer: Answer,
}

/// Takes the answer to a question.
#[derive(Debug)]
enum Answer {
    Pillar(oneshot::Sender<Result<PillarReply, NotAnswered>>),
    Mine(oneshot::Sender<Result<MineReply, NotAnswered>>),
}

impl Answer {
    /// Hands an answer to the function that waits for it.
    fn give(self, answer: Result<CallerReply, NotAnswered>) {
        // An error means that nobody waits any more.
        match self {
            Self::Pillar(sender) => drop(sender.send(match answer {
                Ok(CallerReply::Pillar(reply)) => Ok(reply),
                Ok(_) => Err(NotAnswered::wrong_answer()),
                Err(why) => Err(why),
            })),
            Self::Mine(sender) => drop(sender.send(match answer {
                Ok(CallerReply::Mine(reply)) => Ok(reply),
                Ok(_) => Err(NotAnswered::wrong_answer()),
                Err(why) => Err(why),
            })),
        }
    }
}

/// The questions of functions; without a master there are none.
#[derive(Debug, Default)]
pub(super) struct MasterQuestions {
    waiting: Option<mpsc::Receiver<Question>>,
    asked: Option<Question>,
}

impl MasterQuestions {
    /// Lets the functions of this host ask.
    pub(super) fn of(host: &Host) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        // Nobody else sets them.
        let _ = host.master_pillar.set(Box::new(Questions(sender.clone())));
        let _ = host.master_mine.set(Box::new(Questions(sender)));
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
            .ask_once(host, &question.request, question.within)
            .await;
        if let Some(question) = self.asked.take() {
            question.answer.give(answer);
        }
    }
}

/// Hands questions to the task that has the session.
#[derive(Debug)]
struct Questions(mpsc::Sender<Question>);

impl Questions {
    fn send<R>(
        &self,
        request: CallerRequest,
        within: Duration,
        answer: impl FnOnce(oneshot::Sender<Result<R, NotAnswered>>) -> Answer,
    ) -> PendingAnswer<R> {
        let (sender, receiver) = oneshot::channel();
        // What finds no room is asked again.
        let _ = self.0.try_send(Question {
            request,
            within,
            answer: answer(sender),
        });
        PendingAnswer::over(receiver)
    }
}

/// The size of a part or of a page, in bytes.
fn part_size() -> u32 {
    u32::try_from(MAX_PART / 4).unwrap_or(u32::MAX)
}

impl MasterPillar for Questions {
    fn send(&self, request: PillarRequest, within: Duration) -> PendingAnswer<PillarReply> {
        Self::send(self, CallerRequest::Pillar(request), within, Answer::Pillar)
    }

    fn part_size(&self) -> u32 {
        part_size()
    }
}

impl MasterMine for Questions {
    fn send(&self, request: MineRequest, within: Duration) -> PendingAnswer<MineReply> {
        Self::send(self, CallerRequest::Mine(request), within, Answer::Mine)
    }

    fn page_size(&self) -> u32 {
        part_size()
    }
}
