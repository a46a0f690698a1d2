//! What the master holds of the program: the socket, and the questions that wait for a verdict.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::question::{Kind, Question, Verdict, read_verdict};

/// The name of the program, which stands beside that of the master.
const PROGRAM: &str = "saline-pam";

/// How long a question waits for its verdict: for a place among those that are answered, and for PAM.
const LONGEST: Duration = Duration::from_secs(45);

/// How long a question may take to be written, which takes no time while the program reads.
const WRITE: Duration = Duration::from_secs(5);

/// How many questions may wait.
const MAX_WAITING: usize = 64;

/// How many of these no login takes, so that a flood of them keeps nobody logged in whose account is locked.
const FOR_ACCOUNTS: usize = 8;

/// The reason why there is no verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PamError {
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The path of the program.
        program: String,
        /// Why it could not be started.
        source: io::Error,
    },
    /// The program has ended.
    #[error("saline-pam has ended: restart saline-master")]
    Ended,
    /// No verdict came in time.
    #[error("PAM has not answered in time")]
    TimedOut,
    /// Too many questions wait.
    #[error("too many logins wait for PAM")]
    Full,
    /// PAM could not be asked.
    #[error("PAM could not be asked; the log of saline-master has a line of saline-pam")]
    Failed,
    /// The name or the password has a zero byte, or more than [`MAX_TEXT`](crate::MAX_TEXT) bytes.
    #[error("the name or the password cannot be sent to PAM")]
    Unsuitable,
}

impl PamError {
    fn start(program: &Path, source: io::Error) -> Self {
        Self::Start {
            program: program.display().to_string(),
            source,
        }
    }
}

type Waiting = Arc<Mutex<WaitingQuestions>>;

#[derive(Debug, Default)]
struct WaitingQuestions {
    last: u32,
    verdicts: HashMap<u32, SyncSender<Verdict>>,
    /// The program has ended.
    ended: bool,
}

/// The program, which was started and is asked nothing yet. It ends when this is dropped.
#[derive(Debug)]
pub struct PamProcess {
    child: Child,
    socket: UnixStream,
}

impl PamProcess {
    /// Starts the program beside the executable of this process, with the rights of this process.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_beside_this_one() -> Result<Self, PamError> {
        let mut program = std::env::current_exe().unwrap_or_default();
        program.set_file_name(PROGRAM);
        Self::start(&program, None)
    }

    /// Starts the program, with the rights of this process; `folder` has the files of services in the place of `/etc/pam.d`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, folder: Option<&Path>) -> Result<Self, PamError> {
        let failed = |source| PamError::start(program, source);
        let (socket, its) = UnixStream::pair().map_err(failed)?;
        let child = Command::new(program)
            .arg("serve")
            .args(folder)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Self { child, socket })
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for PamProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// The program that asks PAM. Every call blocks; any number of threads may ask at a time. The program ends when this is dropped.
#[derive(Debug)]
pub struct PamHelper {
    process: PamProcess,
    waiting: Waiting,
    reader: Option<JoinHandle<()>>,
}

impl PamHelper {
    /// Takes a program over that was started, and begins to read its verdicts in a thread.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn new(process: PamProcess) -> Result<Self, PamError> {
        let failed = |source| PamError::start(Path::new(PROGRAM), source);
        let waiting = Waiting::default();
        let limit = process.socket.set_write_timeout(Some(WRITE));
        limit.map_err(failed)?;
        let reading = process.socket.try_clone().map_err(failed)?;
        let told = Arc::clone(&waiting);
        let reader = std::thread::Builder::new()
            .name(PROGRAM.to_owned())
            .spawn(move || read(reading, &told))
            .map_err(failed)?;
        Ok(Self {
            process,
            waiting,
            reader: Some(reader),
        })
    }

    /// Checks a password, and whether the account may be used.
    ///
    /// # Errors
    /// When there is no verdict.
    pub fn log_in(&self, user: &str, password: &str) -> Result<Verdict, PamError> {
        self.ask(Kind::Login, user, password)
    }

    /// Checks whether the account of somebody who logged in before may still be used.
    ///
    /// # Errors
    /// When there is no verdict.
    pub fn may_use(&self, user: &str) -> Result<Verdict, PamError> {
        self.ask(Kind::Account, user, "")
    }

    fn ask(&self, kind: Kind, user: &str, password: &str) -> Result<Verdict, PamError> {
        let (verdict, told) = sync_channel(1);
        {
            let mut waiting = lock(&self.waiting);
            if waiting.ended {
                return Err(PamError::Ended);
            }
            let most = match kind {
                Kind::Login => MAX_WAITING - FOR_ACCOUNTS,
                Kind::Account => MAX_WAITING,
            };
            if waiting.verdicts.len() >= most {
                return Err(PamError::Full);
            }
            waiting.last = waiting.last.wrapping_add(1);
            let number = waiting.last;
            waiting.verdicts.insert(number, verdict);
            // Under the lock, so that no two questions are written at once. The buffer of a socket has room for all that may wait.
            let question = Question {
                number,
                kind,
                user: user.to_owned(),
                password: Zeroizing::new(password.to_owned()),
            };
            if let Err(error) = question.write(&mut &self.process.socket) {
                waiting.verdicts.remove(&number);
                return Err(match error.kind() {
                    io::ErrorKind::InvalidInput => PamError::Unsuitable,
                    _ => {
                        // A part of it may have been written, after which nothing can be read.
                        waiting.ended = true;
                        PamError::Ended
                    }
                });
            }
        }
        match told.recv_timeout(LONGEST) {
            Ok(Verdict::Failed) => Err(PamError::Failed),
            Ok(verdict) => Ok(verdict),
            Err(RecvTimeoutError::Disconnected) => Err(PamError::Ended),
            // It goes on to wait for its verdict, so that no more questions are written than the socket has room for.
            Err(RecvTimeoutError::Timeout) => Err(PamError::TimedOut),
        }
    }
}

impl Drop for PamHelper {
    fn drop(&mut self) {
        self.process.end();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Hands out verdicts until the program ends.
fn read(mut socket: UnixStream, waiting: &Waiting) {
    while let Ok(Some((number, verdict))) = read_verdict(&mut socket) {
        if let Some(asker) = lock(waiting).verdicts.remove(&number) {
            // Its asker may have gone; there is room for one.
            let _ = asker.try_send(verdict);
        }
    }
    let mut waiting = lock(waiting);
    waiting.ended = true;
    waiting.verdicts.clear();
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, WaitingQuestions> {
    // Every change under this lock is complete in one step.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
