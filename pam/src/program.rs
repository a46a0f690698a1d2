//! The program `saline-pam`: takes questions over the socket that is its standard input, and has each answered by a process of
//! its own. `saline-pam check` is that process: it reads one question and ends with the verdict as its exit code.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, pidfd_open, set_parent_process_death_signal,
};

use crate::conversation::check;
use crate::question::{Question, Verdict, write_verdict};

/// How many questions are answered at once. Each may take some seconds, since PAM waits after a wrong password.
const AT_ONCE: usize = 8;

/// How long a check may take.
const LONGEST: Duration = Duration::from_secs(30);

/// Runs the program with the arguments of the process: `serve [FOLDER]` or `check [FOLDER]`, where the folder has the files of
/// services in the place of `/etc/pam.d`.
pub fn main() -> ExitCode {
    // Nobody is left who could ask, or be told.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match arguments.as_slice() {
        [verb, rest @ ..] if verb == "serve" && rest.len() < 2 => {
            serve(rest.first().map(PathBuf::from))
        }
        [verb, rest @ ..] if verb == "check" && rest.len() < 2 => {
            return check_one(rest.first().map(PathBuf::from));
        }
        _ => {
            eprintln!(
                "saline-pam is started by saline-master, when its external_auth has `pam`; it is not a command of operators"
            );
            return ExitCode::from(64);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saline-pam: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers questions until the other side ends.
fn serve(folder: Option<PathBuf>) -> io::Result<()> {
    if !geteuid().is_root() {
        eprintln!(
            "saline-pam: does not run as root, so PAM may know the password of its own user alone"
        );
    }
    // Not open in the processes that check: a module of PAM there could answer for others.
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let answers = Arc::new(Mutex::new(socket.try_clone()?));
    let (give_back, places) = sync_channel(AT_ONCE);
    for _ in 0..AT_ONCE {
        // There is room for all of them.
        let _ = give_back.send(());
    }
    std::thread::scope(|scope| {
        while let Some(question) = Question::read(&mut socket)? {
            if places.recv().is_err() {
                break;
            }
            let (answers, folder) = (Arc::clone(&answers), folder.clone());
            let place = Place(give_back.clone());
            scope.spawn(move || {
                let verdict = answered(&question, folder).unwrap_or_else(|error| {
                    eprintln!("saline-pam: a check was not made: {error}");
                    Verdict::Failed
                });
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                // The master is gone, and the loop sees that too.
                let _ = write_verdict(&mut *answers, question.number, verdict);
                drop(place);
            });
        }
        Ok(())
    })
}

/// A place among those that are answered at once, which is given back.
struct Place(SyncSender<()>);

impl Drop for Place {
    fn drop(&mut self) {
        // There is room, since it was taken.
        let _ = self.0.send(());
    }
}

/// Has a process answer a question.
fn answered(question: &Question, folder: Option<PathBuf>) -> io::Result<Verdict> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("check")
        .args(folder)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut input = child.stdin.take();
    let asked = input.as_mut().map(|input| question.write(input));
    drop(input);
    let ended = wait(&mut child);
    // A process that ended before it read has said by its code why.
    asked.transpose().or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(None),
        _ => Err(error),
    })?;
    ended
}

/// Waits for the end of a check, and ends it when it takes too long.
fn wait(child: &mut Child) -> io::Result<Verdict> {
    let pid = Pid::from_child(child);
    let ends = pidfd_open(pid, PidfdFlags::empty())?;
    let longest = Timespec::try_from(LONGEST).map_err(io::Error::other)?;
    let ended = poll(&mut [PollFd::new(&ends, PollFlags::IN)], Some(&longest))?;
    if ended == 0 {
        child.kill()?;
        child.wait()?;
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("PAM has not answered for {} s", LONGEST.as_secs()),
        ));
    }
    let code = child.wait()?.code();
    let verdict = code.and_then(|code| u8::try_from(code).ok());
    Ok(verdict.map_or(Verdict::Failed, Verdict::from_byte))
}

/// Answers the one question that stands in the standard input.
fn check_one(folder: Option<PathBuf>) -> ExitCode {
    let verdict = read_one(&mut io::stdin().lock())
        .map_err(|error| format!("the question cannot be read: {error}"))
        .and_then(|question| check(&question, folder.as_deref()));
    let verdict = verdict.unwrap_or_else(|why| {
        eprintln!("saline-pam: PAM cannot be asked: {why}");
        Verdict::Failed
    });
    ExitCode::from(verdict.to_byte())
}

fn read_one(input: &mut impl Read) -> io::Result<Question> {
    Question::read(input)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
