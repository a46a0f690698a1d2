//! How a minion, also a later one, signals the function in a job process: over a socket in the job's folder. The process
//! alone knows what its function does, and the pids of its commands stay theirs while it knows them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use saline_messages::Jid;
use serde::{Deserialize, Serialize};

use super::folder::JobFolder;
use super::versioned::{self, FormatError};
use crate::job::{Ending, JobControl, SignalEffect};

/// How long each side waits for the next bytes of the other.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// The largest request or answer, in bytes.
const MAX_MESSAGE: u64 = 64 * 1024;

/// A request of a minion.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Sends a signal to the job, in the name of another job.
    Signal { signal: i32, by: Jid, user: String },
}

/// The answer of a job process: the effect of a signal.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Sent(u32),
    SentAtStart,
    NotBegun,
    Interrupted,
    Noted,
    NoProcess,
    Refused(u32, i32),
    HasEnded,
    Unanswered(u32),
}

impl From<SignalEffect> for Answer {
    fn from(effect: SignalEffect) -> Self {
        match effect {
            SignalEffect::Sent(pid) => Self::Sent(pid),
            SignalEffect::SentAtStart => Self::SentAtStart,
            SignalEffect::NotBegun => Self::NotBegun,
            SignalEffect::Interrupted => Self::Interrupted,
            SignalEffect::Noted => Self::Noted,
            SignalEffect::NoProcess => Self::NoProcess,
            SignalEffect::HasEnded => Self::HasEnded,
            SignalEffect::Unanswered(pid) => Self::Unanswered(pid),
            SignalEffect::Refused(pid, errno) => Self::Refused(pid, errno.raw_os_error()),
        }
    }
}

impl From<Answer> for SignalEffect {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Sent(pid) => Self::Sent(pid),
            Answer::SentAtStart => Self::SentAtStart,
            Answer::NotBegun => Self::NotBegun,
            Answer::Interrupted => Self::Interrupted,
            Answer::Noted => Self::Noted,
            Answer::NoProcess => Self::NoProcess,
            Answer::HasEnded => Self::HasEnded,
            Answer::Unanswered(pid) => Self::Unanswered(pid),
            Answer::Refused(pid, errno) => Self::Refused(pid, Errno::from_raw_os_error(errno)),
        }
    }
}

/// Creates the socket of a job. Requests wait there until the process takes them.
///
/// # Errors
/// When it cannot be created.
pub(super) fn listen(folder: &JobFolder) -> io::Result<UnixListener> {
    let (_folder, path) = short_path(&folder.control())?;
    let listener = UnixListener::bind(&path)?;
    // The folder is private already.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers the requests of minions, for ever. This function holds `answering` while it carries a signal out and writes the answer: the
/// signal may end the function, and the process must not end before the minion is told.
pub(super) fn serve(listener: &UnixListener, job: &JobControl, answering: &Mutex<()>) {
    for stream in listener.incoming() {
        // A minion that goes away, or sends something else, gets no answer.
        let _ = stream
            .map_err(FormatError::Read)
            .and_then(|stream| answer(stream, job, answering));
    }
}

fn answer(
    mut stream: UnixStream,
    job: &JobControl,
    answering: &Mutex<()>,
) -> Result<(), FormatError> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let Request::Signal { signal, by, user } = versioned::read(&stream, MAX_MESSAGE)?;
    let signal = Signal::from_named_raw(signal).ok_or(FormatError::Damaged)?;
    // Not before, since a peer may take its time with the request.
    let _answering = answering.lock().unwrap_or_else(PoisonError::into_inner);
    let effect = job.signal(Ending { signal, by, user });
    stream.write_all(&versioned::encode(&Answer::from(effect)))?;
    Ok(())
}

/// Sends a signal to the function of a job process. Returns its effect.
///
/// # Errors
/// When the process does not answer, or is of another version.
pub(super) fn signal(folder: &JobFolder, ending: &Ending) -> Result<SignalEffect, FormatError> {
    let (_folder, path) = short_path(&folder.control())?;
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = Request::Signal {
        signal: ending.signal.as_raw(),
        by: ending.by.clone(),
        user: ending.user.clone(),
    };
    stream.write_all(&versioned::encode(&request))?;
    stream.shutdown(Shutdown::Write)?;
    versioned::read::<Answer>(&stream, MAX_MESSAGE).map(SignalEffect::from)
}

/// Returns a path of a socket that is short enough for the system, which takes 107 bytes. It is valid while the file is
/// open.
fn short_path(path: &Path) -> io::Result<(File, PathBuf)> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = File::from(rustix::fs::open(folder, flags, Mode::empty())?);
    let name = path.file_name().unwrap_or_default();
    let short = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(name);
    Ok((folder, short))
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "a deadline for a thread that is really running"
)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;
    use std::time::Instant;

    use saline_messages::StartId;

    use super::*;
    use crate::job::RunningJob;
    use crate::job_process::JobFolders;

    #[test]
    fn who_waits_after_a_signal_waits_for_its_answer() {
        static ANSWERING: Mutex<()> = Mutex::new(());
        let root = tempfile::tempdir().unwrap();
        let folders = JobFolders::below(&root.path().join("run"), &root.path().join("state"));
        let folder = folders.create(StartId([7; 16]), 1).unwrap();
        let listener = listen(&folder).unwrap();
        let job = RunningJob::example("20261121091409931549");
        let job = Arc::new(JobControl::new(job));
        let served = Arc::clone(&job);
        std::thread::spawn(move || serve(&listener, &served, &ANSWERING));
        let (_folder, path) = short_path(&folder.control()).unwrap();
        let mut asking = UnixStream::connect(path).unwrap();
        let request = Request::Signal {
            signal: Signal::TERM.as_raw(),
            by: Jid::parse("20261121091500000000").unwrap(),
            user: "root".to_owned(),
        };
        asking.write_all(&versioned::encode(&request)).unwrap();
        asking.shutdown(Shutdown::Write).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while job.ending().is_none() {
            assert!(Instant::now() < deadline, "the signal is not carried out");
        }
        let _waited = ANSWERING.lock().unwrap();
        asking.set_nonblocking(true).unwrap();
        let mut first = [0];
        let read = asking.read(&mut first);
        assert!(matches!(read, Ok(1)), "the answer: {read:?}");
    }
}
