//! Follows a published job: prints its returns, answers Ctrl-C, and stops it if that is wanted.

use std::future::pending;
use std::io;
use std::time::Duration;

use saline_client::{Client, JobFollower, JobSpec};
use saline_messages::{Arguments, BatchRequest, MinionId};
use saline_protocol::transport::{Clock, Instant};
use saline_targeting::CompiledTarget;

use super::master_away::until_answered;
use super::{failed, lookup_states};
use crate::absence::LookUp;
use crate::exit;
use crate::interrupt::{CommandProgress, Interrupt, InterruptChoice, Interruption};
use crate::names::counted;
use crate::report::Report;
use crate::screen::Screen;
use crate::status_line::JobStatus;

/// How often the master is asked when it heard the minion of the line of `--progress` last.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Said when the master could not be asked to stop a job.
const NOT_STOPPED: &str = "The job was not stopped.";

/// Returns what is said when a job was cancelled, and the minions that run it could not be told to end it.
fn cancelled_alone(running: &[&str]) -> String {
    let on = match running {
        [] => "the minions that run it".to_owned(),
        running => running.join(", "),
    };
    format!("The job was cancelled where it had not begun; it was not stopped on {on}.")
}

/// Returns the note about a job whose master is gone: that it was published, and which minions have not returned.
fn published_all_the_same(look_up: &LookUp, unanswered: &[String]) -> String {
    let jid = &look_up.jid;
    let missing = match unanswered {
        [] => "every minion has returned".to_owned(),
        unanswered => format!(
            "no return was received from {}, which may run it",
            counted(unanswered)
        ),
    };
    format!(
        "The job {jid} was published, and {missing}. {}",
        look_up.hint()
    )
}

/// What the master last said of the minion that the line of `--progress` names.
struct LastHeard {
    minion: MinionId,
    /// When the master heard the minion, by this machine's clock; none when the master does not know.
    at: Option<Instant>,
}

/// A published job that is followed.
pub(super) struct PublishedJob<'c> {
    pub(super) client: &'c Client,
    pub(super) target: CompiledTarget,
    /// The user who asks.
    pub(super) user: String,
    pub(super) look_up: LookUp,
    pub(super) run: JobFollower,
    pub(super) report: Report,
    pub(super) shows_progress: bool,
}

/// Asks the master when it heard the minion last. Returns none when it does not answer in time.
async fn last_heard_of(client: &Client, minion: MinionId) -> Option<LastHeard> {
    let asking = client.last_seen(vec![minion.clone()]);
    let last_seen = Clock.deadline(Clock.after(STATUS_INTERVAL), asking).await;
    // Without an answer the line says nothing of it.
    let last_seen = last_seen.ok()?.unwrap_or_default();
    let accepted = last_seen.iter().find(|seen| seen.is_accepted);
    let ago = accepted.and_then(|seen| seen.heard_ms);
    let at = ago.and_then(|ago| Clock.now().checked_sub(Duration::from_millis(ago)));
    Some(LastHeard { minion, at })
}

impl PublishedJob<'_> {
    /// Prints what minions return until no return can come, or until the command is interrupted.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(super) async fn follow(
        mut self,
        screen: &mut Screen<'_>,
        interrupt: &mut Interrupt,
    ) -> io::Result<u8> {
        let mut last_heard: Option<LastHeard> = None;
        let mut asks_at = Clock.now();
        loop {
            if self.shows_progress {
                screen.show_status(&self.status(last_heard.as_ref()));
            }
            let waiting_for = self.run.waited_for().next();
            let waiting_for = waiting_for.map(|(minion, _)| minion.clone());
            let client = self.client;
            let asking = async {
                Clock.until(asks_at).await;
                match waiting_for {
                    Some(minion) => last_heard_of(client, minion).await,
                    None => pending().await,
                }
            };
            let next = tokio::select! {
                biased;
                interruption = interrupt.wait() => {
                    screen.show_status("");
                    match self.ask_what_to_do(screen, interruption).await? {
                        InterruptChoice::Stop => {
                            self.stop(screen).await;
                            continue;
                        }
                        choice => return self.interrupted(screen, interruption, choice != InterruptChoice::NotAsked),
                    }
                }
                heard = asking, if self.shows_progress => {
                    last_heard = heard.or(last_heard);
                    asks_at = Clock.after(STATUS_INTERVAL);
                    continue;
                }
                next = until_answered(screen, client, self.run.next()) => next,
            };
            match next {
                Ok(Some(progress)) => {
                    // Beside what is printed now it would show the counts from before.
                    screen.show_status("");
                    self.report.take(screen, progress)?;
                }
                Ok(None) => {
                    screen.show_status("");
                    let batch = self.run.published().batch;
                    let halted = batch.and_then(|batch| self.report.halted(&batch));
                    let code = self
                        .report
                        .finish(screen, self.run.expires(), &self.look_up);
                    if let Some(line) = halted {
                        screen.note(line);
                    }
                    for id in self.run.duplicates() {
                        screen.note(format!(
                            "WARNING: two machines use the id {id}: saline-key -L shows their addresses"
                        ));
                    }
                    return code;
                }
                Err(error) => {
                    screen.show_status("");
                    failed(screen, &error);
                    return self.given_up(screen);
                }
            }
        }
    }

    /// Returns the line of `--progress`.
    fn status(&self, last_heard: Option<&LastHeard>) -> String {
        let published = self.run.published();
        let (returned, failed) = self.report.counts();
        let waiting_for = self.run.waited_for().next().map(|(minion, _)| minion);
        let heard = last_heard.filter(|heard| Some(&heard.minion) == waiting_for);
        let heard = heard.and_then(|heard| heard.at);
        let status = JobStatus {
            expected: published.minions.len() + published.unknown.len(),
            returned,
            failed,
            waiting_for: waiting_for.map(MinionId::as_str),
            heard: heard.map(|at| Clock.now().saturating_duration_since(at)),
        };
        status.line()
    }

    /// Returns the minions that have not answered, and those of them that run the job.
    fn unanswered(&self) -> (Vec<&str>, Vec<&str>) {
        let minions = self
            .run
            .published()
            .minions
            .iter()
            .map(|(minion, _)| minion);
        let unanswered = self.report.unanswered(minions);
        let running = self.run.waited_for().filter(|(_, runs)| *runs);
        (
            unanswered.into_iter().map(MinionId::as_str).collect(),
            running.map(|(minion, _)| minion.as_str()).collect(),
        )
    }

    /// Asks whoever typed Ctrl-C whether to stop the job.
    async fn ask_what_to_do(
        &self,
        screen: &mut Screen<'_>,
        interruption: Interruption,
    ) -> io::Result<InterruptChoice> {
        let (unanswered, running) = self.unanswered();
        let context = Some(self.client.context());
        let minions = (&unanswered[..], &running[..]);
        interruption
            .offers_to_stop(screen, &self.look_up.jid, minions, context)
            .await
    }

    /// Stops the job: minions that have not begun it will not, and the others end it.
    async fn stop(&self, screen: &mut Screen<'_>) {
        let jid = &self.look_up.jid;
        let asking = lookup_states::states(self.client, jid);
        match until_answered(screen, self.client, asking).await {
            // The operator may have taken long to answer.
            Ok(states) if states.iter().all(|(_, state, _)| state.is_final()) => {
                return screen.note("The job has ended meanwhile: there was nothing to stop.");
            }
            Ok(_) => {}
            Err(error) => {
                failed(screen, &error);
                return screen.note(NOT_STOPPED);
            }
        }
        let terminate = JobSpec::new(self.target.clone(), "saltutil.term_job")
            .with_arguments(Arguments {
                positional: vec![jid.as_str().into()],
                named: Vec::new(),
            })
            .asked_by(self.user.clone())
            // All at once, also where jobs for many are made batches.
            .in_batches(BatchRequest {
                safe_limit: Some(0),
                ..BatchRequest::default()
            });
        let cancelling = self.client.cancel(jid);
        match until_answered(screen, self.client, cancelling).await {
            Ok(warnings) => screen.warn(&warnings),
            Err(error) => {
                failed(screen, &error);
                return screen.note(NOT_STOPPED);
            }
        }
        let ending = self.client.run_async(terminate);
        match until_answered(screen, self.client, ending).await {
            Ok(_) => screen.note(
                "Stopping the job: the minions were told to end it. Ctrl-C again leaves at once.",
            ),
            Err(error) => {
                failed(screen, &error);
                screen.note(cancelled_alone(&self.unanswered().1));
            }
        }
    }

    /// Prints the returns so far, and a note about the job, which goes on without this command.
    fn given_up(self, screen: &mut Screen<'_>) -> io::Result<u8> {
        let (unanswered, _) = self.unanswered();
        let unanswered: Vec<String> = unanswered.into_iter().map(str::to_owned).collect();
        let printed = self
            .report
            .interrupt(screen, self.run.expires(), &self.look_up);
        screen.note(published_all_the_same(&self.look_up, &unanswered));
        // The exit code differs from that of a job that was not published.
        printed.map(|()| exit::FAILED)
    }

    /// Prints what has come so far, and how to go on. With `told`, the missing minions have been named.
    fn interrupted(
        self,
        screen: &mut Screen<'_>,
        interruption: Interruption,
        told: bool,
    ) -> io::Result<u8> {
        let (unanswered, running) = self.unanswered();
        let named = |minions: Vec<&str>| minions.into_iter().map(str::to_owned).collect();
        let (unanswered, running): (Vec<String>, Vec<String>) = (named(unanswered), named(running));
        let printed = self
            .report
            .interrupt(screen, self.run.expires(), &self.look_up);
        let how_far = CommandProgress::Published {
            look_up: &self.look_up,
            unanswered: &unanswered,
            running: &running,
            told,
            in_batches: self.run.published().batch.is_some(),
        };
        // Also when nothing could be printed: Ctrl-C may have ended the reader of the output too.
        let code = interruption.leave(screen, &how_far);
        printed.map(|()| code)
    }
}

#[cfg(test)]
mod tests {
    use saline_messages::Jid;

    use super::{LookUp, cancelled_alone, published_all_the_same};

    #[test]
    fn a_job_of_which_the_master_tells_no_more_was_published() {
        let look_up = LookUp {
            jid: Jid::parse("20261121091409931549").unwrap(),
            options: " -c /tmp/x".to_owned(),
        };
        let unanswered = ["m1".to_owned(), "m2".to_owned()];
        insta::assert_snapshot!(published_all_the_same(&look_up, &unanswered), @"
        The job 20261121091409931549 was published, and no return was received from 2 minions (m1, m2), which may run it. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091409931549 -c /tmp/x
        ");
    }

    #[test]
    fn what_was_cancelled_and_where_it_runs_on_are_told_apart() {
        assert_eq!(
            cancelled_alone(&["m1", "m2"]),
            "The job was cancelled where it had not begun; it was not stopped on m1, m2."
        );
        assert_eq!(
            cancelled_alone(&[]),
            "The job was cancelled where it had not begun; it was not stopped on the minions that run it."
        );
    }
}
