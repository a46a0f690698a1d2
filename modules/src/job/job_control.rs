//! The control of one job: what it does now, and how another job ends it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio_util::sync::CancellationToken;

use super::job_signal::ends_a_job;
use super::stop::wait_for_any;
use super::{Ending, RunningJob, SignalEffect, Stop};
use crate::job_process::JobProcess;

/// The control of one job, shared by the thread that runs it and by the jobs that look at it.
#[derive(Debug)]
pub struct JobControl {
    description: RunningJob,
    state: Mutex<ControlState>,
    /// Cancelled when the job is asked to end.
    ended: CancellationToken,
}

#[derive(Debug)]
struct ControlState {
    activity: Activity,
    /// The first request to end the job.
    ending: Option<Ending>,
}

/// The activity of a job at the moment.
#[derive(Debug)]
enum Activity {
    /// The job waits for a thread.
    Queued,
    /// The function computes.
    Computing,
    /// The function waits until a time has passed or this flag is raised.
    Waiting(Arc<Stop>),
    /// The function starts a command.
    StartingCommand,
    /// A command runs; this process leads its group, and nothing else has its number.
    Command(Pid),
    /// The function runs in a process of its own, which knows what it does.
    Elsewhere(Arc<JobProcess>),
}

/// The reason why a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Woken {
    /// The time has passed.
    TimePassed,
    /// The minion stops.
    Stopped,
    /// The job was asked to end.
    Ended(Ending),
}

impl JobControl {
    /// Creates the control of a job that waits for a thread.
    pub fn new(description: RunningJob) -> Self {
        Self {
            description,
            state: Mutex::new(ControlState {
                activity: Activity::Queued,
                ending: None,
            }),
            ended: CancellationToken::new(),
        }
    }

    /// Returns the description of the job, with the pid of its own process, or of its command while one runs.
    pub fn description(&self) -> RunningJob {
        let mut description = self.description.clone();
        match &self.lock().activity {
            Activity::Command(leader) => description.pid = number(*leader),
            Activity::Elsewhere(process) => description.pid = process.pid(),
            _ => {}
        }
        description
    }

    /// Whether the job has begun.
    pub fn has_begun(&self) -> bool {
        !matches!(self.lock().activity, Activity::Queued)
    }

    /// Notes that the job has a thread and begins.
    ///
    /// # Errors
    /// When the job was asked to end: it must not begin then.
    pub fn begin(&self) -> Result<(), Ending> {
        let mut state = self.lock();
        if let Some(ending) = &state.ending {
            return Err(ending.clone());
        }
        state.activity = Activity::Computing;
        Ok(())
    }

    /// Notes that the job runs in a process of its own. If it was asked to end meanwhile, the process is told.
    pub fn runs_in(&self, process: Arc<JobProcess>) {
        let mut state = self.lock();
        state.activity = Activity::Elsewhere(Arc::clone(&process));
        let ending = state.ending.clone();
        drop(state);
        if let Some(ending) = ending {
            process.signal(&ending);
        }
    }

    /// Waits until the job is asked to end.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn ended(&self) -> Ending {
        loop {
            self.ended.cancelled().await;
            // The token is cancelled after the request was noted, so the first look finds it.
            if let Some(ending) = self.ending() {
                return ending;
            }
        }
    }

    /// Returns the first request to end the job.
    pub fn ending(&self) -> Option<Ending> {
        self.lock().ending.clone()
    }

    /// Sends the signal of `request` to the job.
    pub fn signal(&self, request: Ending) -> SignalEffect {
        let signal = request.signal;
        let mut state = self.lock();
        if let Activity::Elsewhere(process) = &state.activity {
            let process = Arc::clone(process);
            if ends_a_job(signal) {
                state.ending.get_or_insert_with(|| request.clone());
            }
            // The process may take a while to answer.
            drop(state);
            return process.signal(&request);
        }
        if ends_a_job(signal) {
            state.ending.get_or_insert(request);
        } else if !matches!(state.activity, Activity::Command(_)) {
            return SignalEffect::NoProcess;
        }
        let effect = match &state.activity {
            Activity::Queued => SignalEffect::NotBegun,
            Activity::Computing => SignalEffect::Noted,
            Activity::Waiting(flag) => {
                flag.raise();
                SignalEffect::Interrupted
            }
            Activity::StartingCommand => SignalEffect::SentAtStart,
            Activity::Command(leader) => match kill_process_group(*leader, signal) {
                Ok(()) => SignalEffect::Sent(number(*leader)),
                Err(error) => SignalEffect::Refused(number(*leader), error),
            },
            // It is done above.
            Activity::Elsewhere(_) => SignalEffect::Noted,
        };
        let ends = state.ending.is_some();
        drop(state);
        if ends {
            self.ended.cancel();
        }
        effect
    }

    /// Waits on the job's thread for `duration`, until the minion stops, or until the job is asked to
    /// end.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn wait(&self, stop: &Stop, duration: Duration) -> io::Result<Woken> {
        let flag = Arc::new(Stop::new()?);
        {
            let mut state = self.lock();
            if let Some(ending) = &state.ending {
                return Ok(Woken::Ended(ending.clone()));
            }
            state.activity = Activity::Waiting(Arc::clone(&flag));
        }
        let raised = wait_for_any([stop, &flag], duration);
        let mut state = self.lock();
        state.activity = Activity::Computing;
        Ok(match (&state.ending, raised) {
            (Some(ending), _) => Woken::Ended(ending.clone()),
            (None, true) => Woken::Stopped,
            (None, false) => Woken::TimePassed,
        })
    }

    /// Starts a command: `spawn` returns it with the leader of its process group, whose number must belong to
    /// the command for as long as the [`CommandProcess`] is not detached. A signal that comes meanwhile reaches
    /// the command.
    ///
    /// # Errors
    /// `Ended` when the job was asked to end before, and what `spawn` returns.
    pub fn start_command<T, E>(
        &self,
        spawn: impl FnOnce() -> Result<(Pid, T), E>,
    ) -> Result<(T, CommandProcess<'_>), StartError<E>> {
        {
            let mut state = self.lock();
            if let Some(ending) = &state.ending {
                return Err(StartError::Ended(ending.clone()));
            }
            state.activity = Activity::StartingCommand;
        }
        let spawned = spawn();
        let mut state = self.lock();
        state.activity = Activity::Computing;
        let (leader, command) = spawned.map_err(StartError::Spawn)?;
        if let Some(ending) = &state.ending {
            // It fails only when the group has ended.
            let _ = kill_process_group(leader, ending.signal);
        }
        state.activity = Activity::Command(leader);
        Ok((command, CommandProcess(self)))
    }

    /// Whether the job waits, so that a test can interrupt it.
    #[cfg(test)]
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.lock().activity, Activity::Waiting(_))
    }

    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why a command was not started.
#[derive(Debug)]
pub enum StartError<E> {
    /// The job was asked to end.
    Ended(Ending),
    /// The error of the function that starts the command.
    Spawn(E),
}

/// The process group of a job's command, which signals reach until this is dropped.
#[derive(Debug)]
pub struct CommandProcess<'a>(&'a JobControl);

impl CommandProcess<'_> {
    /// Lets no more signals reach the group, before the number of its leader may belong to another process.
    pub fn detach(&self) {
        self.0.lock().activity = Activity::Computing;
    }

    /// Sends a signal to every process of the group.
    pub fn signal(&self, signal: Signal) {
        if let Activity::Command(leader) = self.0.lock().activity {
            // It fails only when the group has ended.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for CommandProcess<'_> {
    fn drop(&mut self) {
        self.detach();
    }
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

#[cfg(test)]
mod tests;
