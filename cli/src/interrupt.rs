//! Ctrl-C and SIGTERM: the first signal ends a command in order, the second ends it at once.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use saline_messages::Jid;
use saline_protocol::transport::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tokio::signal::unix::{self, SignalKind};

use crate::absence::LookUp;
use crate::names::listed;
use crate::screen::Screen;
use crate::{batch_report, exit};

/// The signals that interrupt a command.
#[derive(Debug)]
pub(crate) struct Interrupt {
    /// None when the system refused a handler; the signals then end the process.
    signals: Option<Signals>,
}

#[derive(Debug)]
struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl Interrupt {
    /// Catches the signals from now on. Needs a running runtime.
    pub(crate) fn catch() -> Self {
        Self {
            signals: Signals::catch()
                .inspect_err(|error| tracing::debug!("cannot catch signals: {error}"))
                .ok(),
        }
    }

    /// Waits for the first signal.
    ///
    /// # Cancel safety
    /// A signal is not lost when the future is dropped.
    pub(crate) async fn wait(&mut self) -> Interruption {
        match &mut self.signals {
            Some(signals) => tokio::select! {
                Some(()) = signals.interrupt.recv() => Interruption::CtrlC,
                Some(()) = signals.terminate.recv() => Interruption::Terminated,
                else => pending().await,
            },
            None => pending().await,
        }
    }
}

impl Signals {
    fn catch() -> io::Result<Self> {
        let caught = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Handlers run in the order of their registration, so the first signal finds the flag
            // unset. The second ends the process inside the handler, because the command may be stuck
            // in a write that nobody reads.
            flag::register_conditional_shutdown(
                signal,
                i32::from(exit::FAILED),
                Arc::clone(&caught),
            )?;
            flag::register(signal, Arc::clone(&caught))?;
        }
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
        })
    }
}

/// A signal that interrupted a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// SIGINT.
    CtrlC,
    /// SIGTERM.
    Terminated,
}

/// How far a command had come when it was interrupted.
#[derive(Debug)]
pub(crate) enum CommandProgress<'a> {
    /// The master was not asked for anything.
    NotPublished,
    /// The master was asked to publish the job, and has not answered.
    Publishing {
        /// The options of commands that find the job.
        options: String,
    },
    /// The job was published.
    Published {
        /// Looks the job up later.
        look_up: &'a LookUp,
        /// The minions that have not answered.
        unanswered: &'a [String],
        /// The minions among these that run the job, as far as is known.
        running: &'a [String],
        /// Whether these minions and the jid have been printed already.
        told: bool,
        /// Whether the job is carried out in batches, so that the master goes on to offer it.
        in_batches: bool,
    },
}

/// The choice of an operator who interrupted a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptChoice {
    /// Nobody was asked.
    NotAsked,
    /// The job goes on.
    Continue,
    /// The job is stopped.
    Stop,
}

impl Interruption {
    /// Names the minions that have not returned the job, and asks at the terminal whether to stop it, if
    /// somebody typed Ctrl-C there.
    ///
    /// # Errors
    /// When the answer cannot be read.
    ///
    /// # Cancel safety
    /// A partly typed answer is lost.
    pub(crate) async fn offers_to_stop(
        self,
        screen: &mut Screen<'_>,
        jid: &Jid,
        (unanswered, running): (&[&str], &[&str]),
        context: Option<&Context>,
    ) -> io::Result<InterruptChoice> {
        if self != Self::CtrlC || !screen.can_ask || unanswered.is_empty() {
            return Ok(InterruptChoice::NotAsked);
        }
        // The terminal shows ^C.
        screen.note("");
        tell(screen, jid, unanswered, running);
        let answer = screen
            .ask("Stop the job on them? [N/y] ", true, context)
            .await?;
        let yes = answer.is_some_and(|answer| answer.trim_start().starts_with(['y', 'Y']));
        Ok(if yes {
            InterruptChoice::Stop
        } else {
            InterruptChoice::Continue
        })
    }

    /// Prints, on the standard error output in every format, how the command ends, and returns the
    /// exit code. Most of the text is Salt's.
    pub(crate) fn leave(self, screen: &mut Screen<'_>, how_far: &CommandProgress<'_>) -> u8 {
        screen.note(match self {
            // Salt's too begins with an empty line, because the terminal shows ^C.
            Self::CtrlC => "\nExiting gracefully on Ctrl-c",
            Self::Terminated => "Exiting gracefully on SIGTERM",
        });
        match how_far {
            CommandProgress::NotPublished => screen.note("No job was published."),
            CommandProgress::Publishing { options } => screen.note(format!(
                "The job may have been published: the master has not answered with a jid yet. To see whether it was, run the following command:\n\nsaline-run jobs.list_jobs{options}"
            )),
            CommandProgress::Published {
                look_up,
                unanswered,
                running,
                told,
                in_batches,
            } => {
                if !told {
                    tell(screen, &look_up.jid, unanswered, running);
                }
                if *in_batches && !unanswered.is_empty() {
                    screen.note(batch_report::goes_on(look_up));
                    return exit::FAILED;
                }
                if !unanswered.is_empty() {
                    screen.note(format!(
                        "To stop the job, run the following commands:\n\n{}\n",
                        look_up.commands_to_stop().join("\n")
                    ));
                }
                screen.note(format!(
                    "The minions may not have all finished running and any remaining minions will return upon completion. {}",
                    look_up.hint()
                ));
            }
        }
        exit::FAILED
    }
}

/// Prints the jid of a job, and the minions that have not returned it.
fn tell<N: std::fmt::Display>(screen: &mut Screen<'_>, jid: &Jid, unanswered: &[N], running: &[N]) {
    screen.note(format!("The jid of the job: {jid}"));
    if !unanswered.is_empty() {
        screen.note(format!("Not returned yet: {}", listed(unanswered)));
    }
    if !running.is_empty() {
        screen.note(format!("Still running it: {}", listed(running)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Printed;

    fn shown(interruption: Interruption, how_far: &CommandProgress<'_>) -> String {
        let mut printed = Printed::default();
        assert_eq!(interruption.leave(&mut printed.screen(&[]), how_far), 1);
        printed.shown()
    }

    fn published(count: usize, in_batches: bool) -> String {
        let ids: Vec<String> = (0..count).map(|n| format!("m{n:02}")).collect();
        let how_far = CommandProgress::Published {
            look_up: &LookUp {
                jid: Jid::parse("20261121091409931549").unwrap(),
                options: " -c /tmp/x".to_owned(),
            },
            unanswered: &ids,
            running: &ids[..count.min(1)],
            told: false,
            in_batches,
        };
        shown(Interruption::CtrlC, &how_far)
    }

    #[test]
    fn a_published_job_is_told_with_the_minions_that_are_missing() {
        insta::assert_snapshot!(published(2, false), @"
        --- stdout
        --- stderr

        Exiting gracefully on Ctrl-c
        The jid of the job: 20261121091409931549
        Not returned yet: m00, m01
        Still running it: m00
        To stop the job, run the following commands:

        saline-run jobs.cancel 20261121091409931549 -c /tmp/x
        saline '*' saltutil.term_job 20261121091409931549 -c /tmp/x

        The minions may not have all finished running and any remaining minions will return upon completion. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091409931549 -c /tmp/x
        ");
        insta::assert_snapshot!(published(23, false), @"
        --- stdout
        --- stderr

        Exiting gracefully on Ctrl-c
        The jid of the job: 20261121091409931549
        Not returned yet: m00, m01, m02, m03, m04, m05, m06, m07, m08, m09, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19 and 3 more
        Still running it: m00
        To stop the job, run the following commands:

        saline-run jobs.cancel 20261121091409931549 -c /tmp/x
        saline '*' saltutil.term_job 20261121091409931549 -c /tmp/x

        The minions may not have all finished running and any remaining minions will return upon completion. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091409931549 -c /tmp/x
        ");
        insta::assert_snapshot!(published(0, false), @"
        --- stdout
        --- stderr

        Exiting gracefully on Ctrl-c
        The jid of the job: 20261121091409931549
        The minions may not have all finished running and any remaining minions will return upon completion. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091409931549 -c /tmp/x
        ");
    }

    #[test]
    fn a_batch_goes_on_and_is_told_once() {
        insta::assert_snapshot!(published(2, true), @"
        --- stdout
        --- stderr

        Exiting gracefully on Ctrl-c
        The jid of the job: 20261121091409931549
        Not returned yet: m00, m01
        Still running it: m00
        The batch goes on without this command. To see how far it has come, to stop it, or to look up what was returned, run one of the following commands:

        saline-run batch.status 20261121091409931549 -c /tmp/x
        saline-run batch.stop 20261121091409931549 -c /tmp/x
        saline-run jobs.lookup_jid 20261121091409931549 -c /tmp/x
        ");
        assert_eq!(published(0, true), published(0, false));
    }

    #[tokio::test]
    async fn whoever_types_ctrl_c_is_asked_whether_to_stop_the_job() {
        let asked = async |interruption: Interruption, answers: &[&str], minions: &[&str]| {
            let mut printed = Printed::default();
            let mut screen = printed.screen(answers);
            let jid = Jid::parse("20261121091409931549").unwrap();
            let minions = (minions, &minions[..minions.len().min(1)]);
            let choice = interruption
                .offers_to_stop(&mut screen, &jid, minions, None)
                .await;
            (choice.unwrap(), printed.shown())
        };
        let minions = ["m1", "m2"];
        let (choice, shown) = asked(Interruption::CtrlC, &["y\n"], &minions).await;
        assert_eq!(choice, InterruptChoice::Stop);
        insta::assert_snapshot!(shown, @"
        --- stdout
        --- stderr

        The jid of the job: 20261121091409931549
        Not returned yet: m1, m2
        Still running it: m1
        Stop the job on them? [N/y]
        ");
        for answer in ["\n", "n\n", "no\n"] {
            let (choice, _) = asked(Interruption::CtrlC, &[answer], &minions).await;
            assert_eq!(choice, InterruptChoice::Continue);
        }
        let silent = "--- stdout\n--- stderr\n";
        for (interruption, answers, minions) in [
            (Interruption::Terminated, &["y\n"][..], &minions[..]),
            (Interruption::CtrlC, &[], &minions),
            (Interruption::CtrlC, &["y\n"], &[]),
        ] {
            let (choice, shown) = asked(interruption, answers, minions).await;
            assert_eq!(
                (choice, shown.as_str()),
                (InterruptChoice::NotAsked, silent)
            );
        }
    }

    #[test]
    fn a_job_without_a_jid_is_told() {
        let options = " -c /tmp/x".to_owned();
        insta::assert_snapshot!(
            shown(Interruption::CtrlC, &CommandProgress::Publishing { options }),
            @"
        --- stdout
        --- stderr

        Exiting gracefully on Ctrl-c
        The job may have been published: the master has not answered with a jid yet. To see whether it was, run the following command:

        saline-run jobs.list_jobs -c /tmp/x
        "
        );
        insta::assert_snapshot!(
            shown(Interruption::Terminated, &CommandProgress::NotPublished),
            @"
        --- stdout
        --- stderr
        Exiting gracefully on SIGTERM
        No job was published.
        "
        );
    }
}
