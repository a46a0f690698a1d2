//! A job process, as a minion sees it: one that it has started, or one that an earlier minion left behind.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use std::os::unix::process::ExitStatusExt;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use saline_data::Packed;
use saline_messages::{ArgumentPlace, Arguments, Job, StartId};

use super::folder::{Holder, JobFolder, holder};
use super::program::{GIVEN_UP, LEFT_IN_MEMORY, NOT_LEFT};
use super::result::JobResult;
use super::{Call, JobFolders, JobRecord, PROGRAM, control};
use crate::job::{Ending, ScheduledCall, SignalEffect, timespec};
use crate::{Host, Modules, Prepared};

/// Starts the job processes of one start of a minion.
#[derive(Debug)]
pub struct JobProcesses {
    folders: JobFolders,
    place: Vec<u8>,
    start: StartId,
    /// The number of processes that were started.
    started: AtomicU64,
    module_dirs: Vec<PathBuf>,
}

/// The call of a job that gets a process of its own.
#[derive(Debug, Clone)]
pub struct JobCall<'a> {
    /// The job.
    pub job: &'a Job,
    /// How the minion's own schedule calls it, if that does.
    pub scheduled: Option<&'a ScheduledCall>,
    /// The arguments, with the values of the secret ones.
    pub arguments: &'a Arguments,
    /// The places of the secret arguments.
    pub hidden: Vec<ArgumentPlace>,
    /// What was [prepared](Modules::prepare) for it.
    pub prepared: Prepared,
}

impl JobProcesses {
    /// Creates the starter of a start of a minion in this place, which the next minion compares with its own.
    pub fn new(
        folders: JobFolders,
        place: Vec<u8>,
        start: StartId,
        module_dirs: Vec<PathBuf>,
    ) -> Self {
        Self {
            folders,
            place,
            start,
            started: AtomicU64::new(0),
            module_dirs,
        }
    }

    /// Starts a process for a job.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        &self,
        modules: &Modules,
        host: &Host,
        call: JobCall<'_>,
    ) -> Result<JobProcess, StartError> {
        let JobCall {
            job,
            scheduled,
            arguments,
            hidden,
            prepared,
        } = call;
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let folder = self.folders.create(self.start, number);
        let folder = folder
            .map_err(|error| StartError::NotStarted(in_folder(self.folders.run(), &error)))?;
        let call = |record| Call {
            folder: folder.clone(),
            job: record,
            arguments: arguments.pack(),
            hidden,
            prepared,
            id: host.grains.id().clone(),
            grains: Packed::pack(&host.grains.all()),
            module_dirs: self.module_dirs.clone(),
            described: modules.executables.described(&job.fun),
            cache_dir: host.cache_dir.clone(),
            launcher: host.launcher.clone(),
            max_message: host.max_message(),
            output_file_size: host.output_file_size(),
        };
        let record =
            |identity| JobRecord::of(job, scheduled.cloned(), self.place.clone(), identity);
        let started = folder
            .identity()
            .map(record)
            .and_then(|record| Self::start_in(&folder, host, record, call));
        let (mut child, memory) = started.map_err(|error| {
            folder.remove();
            StartError::NotStarted(error)
        })?;
        let pid = Pid::from_child(&child);
        // It is not reaped, so the number is its own.
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(ended) => Ok(JobProcess {
                folder,
                pid,
                ended,
                child: Mutex::new(Some(child)),
                memory: Some(memory),
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                folder.remove();
                Err(StartError::Lost(error.into()))
            }
        }
    }

    fn start_in(
        folder: &JobFolder,
        host: &Host,
        record: JobRecord,
        call: impl FnOnce(JobRecord) -> Call,
    ) -> io::Result<(Child, File)> {
        let in_folder = |error| in_folder(folder.path(), &error);
        folder.write_record(&record).map_err(in_folder)?;
        let listener = control::listen(folder).map_err(in_folder)?;
        let memory = call(record).to_memory()?;
        let stdin = OwnedFd::from(memory.try_clone()?);
        let started = host.launcher.start_program(PROGRAM, stdin, listener.into());
        let child = started.map_err(io::Error::other)?;
        Ok((child, memory))
    }
}

/// Says of an error where it happened.
fn in_folder(folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
}

/// The reason why there is no process for a job.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process was not started: nothing ran.
    #[error(transparent)]
    NotStarted(io::Error),
    /// The process cannot be watched, and was killed: the function may have run.
    #[error("was killed, since the system gives the minion no descriptor to watch it: {0}")]
    Lost(io::Error),
}

/// The end of a job process.
#[derive(Debug)]
pub enum JobEnd {
    /// The process left this return.
    Returned(JobResult),
    /// The process left no return. Says why, after "the process of this job", with the retcode of a command that ended so,
    /// where that is known.
    Without {
        /// The reason.
        why: String,
        /// The retcode.
        retcode: Option<i64>,
    },
}

/// A process that runs a job. Its descriptor becomes readable when it has ended. Dropping this does not end it.
#[derive(Debug)]
pub struct JobProcess {
    folder: JobFolder,
    pid: Pid,
    ended: OwnedFd,
    /// The child, if this minion started it, until it is reaped.
    child: Mutex<Option<Child>>,
    /// The file in memory that it got its call in, if this minion started it.
    memory: Option<File>,
}

impl JobProcess {
    /// Returns the process of another minion that holds the lock on this record; none if it has ended meanwhile.
    ///
    /// # Errors
    /// When the system does not let this process watch it.
    pub(super) fn of_holder(
        folder: JobFolder,
        pid: Pid,
        record: &File,
    ) -> io::Result<Option<Self>> {
        let ended = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(None),
            opened => opened?,
        };
        // A process that holds the lock after the descriptor was opened is the one that held it before, since no other
        // is told of this folder: the descriptor is not that of a later process with the same number.
        let is_it = holder(record)? == Holder::Process(pid);
        Ok(is_it.then_some(Self {
            folder,
            pid,
            ended,
            child: Mutex::new(None),
            memory: None,
        }))
    }

    /// Returns the number of the process.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Signals the function that the process runs, and kills the process if SIGKILL cannot end the function otherwise.
    pub fn signal(&self, ending: &Ending) -> SignalEffect {
        let is_kill = ending.signal == Signal::KILL;
        let error = match control::signal(&self.folder, ending) {
            // The function computes, and would not notice.
            Ok(SignalEffect::Noted) if is_kill => return self.kill(),
            Ok(effect) => return effect,
            Err(error) => error,
        };
        // A process that ends closes its socket a moment before.
        let wait = match error.is_of_closed_stream() {
            true => control::TIMEOUT,
            false => Duration::ZERO,
        };
        if self.ends_within(wait) {
            return SignalEffect::HasEnded;
        }
        if is_kill {
            return self.kill();
        }
        tracing::warn!(
            "process {} was told of a signal without an answer: {error}",
            self.pid()
        );
        SignalEffect::Unanswered(self.pid())
    }

    fn kill(&self) -> SignalEffect {
        match pidfd_send_signal(&self.ended, Signal::KILL) {
            Ok(()) => SignalEffect::Sent(self.pid()),
            Err(Errno::SRCH) => SignalEffect::HasEnded,
            Err(error) => SignalEffect::Refused(self.pid(), error),
        }
    }

    /// Waits until the process has ended, or for `duration`. Returns whether it has ended.
    fn ends_within(&self, duration: Duration) -> bool {
        let mut ended = [PollFd::new(&self.ended, PollFlags::IN)];
        let found = retry_on_intr(|| poll(&mut ended, Some(&timespec(duration))));
        matches!(found, Ok(1..))
    }

    /// Returns the return that the process left. To be called when it has ended.
    pub fn end(&self) -> JobEnd {
        let child = self
            .child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // It has ended, so this does not wait.
        let status = child.and_then(|mut child| child.wait().ok());
        let code = status.and_then(|status| status.code());
        let in_memory = code == Some(i32::from(LEFT_IN_MEMORY));
        let found = match &self.memory {
            Some(memory) if in_memory => JobResult::from_memory(memory).map(Some),
            _ => JobResult::find(&self.folder),
        };
        match found {
            Ok(Some(result)) => JobEnd::Returned(result),
            Ok(None) => without(status),
            Err(error) => {
                let kept = self.folder.set_aside();
                JobEnd::Without {
                    why: format!(
                        "has left a return that is not understood, in {}: {error}",
                        kept.display()
                    ),
                    retcode: None,
                }
            }
        }
    }

    /// Removes everything of the job. To be called when its return is kept elsewhere.
    pub fn remove(&self) {
        self.folder.remove();
    }
}

impl AsFd for JobProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

/// Says how a process ended that left no return.
pub(super) fn without(status: Option<ExitStatus>) -> JobEnd {
    let signal = status.and_then(|status| status.signal());
    let code = status.and_then(|status| status.code());
    let (why, retcode) = match (signal, code) {
        (Some(signal), _) => (
            format!("was ended by signal {signal}: somebody sent it, or the machine ran out of memory"),
            Some(128 + i64::from(signal)),
        ),
        (_, Some(code)) if code == i32::from(GIVEN_UP) => (
            "did not run it: its folder below sock_dir was removed".to_owned(),
            Some(1),
        ),
        (_, Some(code)) if code == i32::from(NOT_LEFT) => (
            "ran it to its end, and could write its return nowhere: sock_dir, state_dir and memory are full, or gone".to_owned(),
            Some(1),
        ),
        (_, Some(code)) => (format!("ended with exit code {code}, without a return"), Some(1)),
        (None, None) => (
            "ended without a return, while no minion was there to see how".to_owned(),
            None,
        ),
    };
    JobEnd::Without { why, retcode }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use saline_messages::Jid;

    use super::*;

    #[test]
    fn a_signal_to_a_process_that_has_ended_says_so() {
        let root = tempfile::tempdir().unwrap();
        let folders = JobFolders::below(&root.path().join("run"), &root.path().join("state"));
        let child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let process = JobProcess {
            folder: folders.create(StartId([7; 16]), 1).unwrap(),
            pid,
            ended: pidfd_open(pid, PidfdFlags::empty()).unwrap(),
            child: Mutex::new(Some(child)),
            memory: None,
        };
        assert!(process.ends_within(Duration::from_secs(60)));
        let told = |process: &JobProcess| {
            [Signal::TERM, Signal::KILL].map(|signal| {
                process.signal(&Ending {
                    signal,
                    by: Jid::parse("20261121091409931549").unwrap(),
                    user: "root".to_owned(),
                })
            })
        };
        assert_eq!(told(&process), [SignalEffect::HasEnded; 2]);
        // The process is reaped, and its number may belong to another one.
        process.end();
        assert_eq!(told(&process), [SignalEffect::HasEnded; 2]);
    }
}
