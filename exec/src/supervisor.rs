//! The main of `saline-exec`: starts one command, and ends with it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use crate::command::Command;
use crate::detach::close_inherited;
use crate::end::{Failure, Report};
use crate::frame::{self, FrameError};
use crate::streams::{Streams, continued};
use crate::{Description, End, Step};

/// The exit code of `saline-exec` when it did not start a command.
const NOT_STARTED: u8 = 125;

/// How long a process group may take to end after SIGTERM, before SIGKILL.
const POLITE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// Starts the command that the daemon describes over descriptor 0, and ends with it, with its retcode.
pub fn main() -> ExitCode {
    let stdin = io::stdin();
    if rustix::net::sockopt::socket_domain(&stdin).is_err() {
        eprintln!(
            "saline-exec starts the commands of Saline's daemons, and is not started by hand"
        );
        return ExitCode::from(NOT_STARTED);
    }
    close_inherited();
    let Ok(control) = stdin.as_fd().try_clone_to_owned() else {
        return ExitCode::from(NOT_STARTED);
    };
    let control = UnixStream::from(control);
    match start(&control) {
        Ok((command, supervision)) => {
            ignore_signals();
            let pid = command.as_raw_nonzero().get().unsigned_abs();
            report(&control, Report::Started { pid });
            match supervision {
                Supervision::None => ExitCode::SUCCESS,
                supervision => supervise(command, supervision, control),
            }
        }
        Err(failure) => {
            report(&control, Report::Failed(failure));
            ExitCode::from(NOT_STARTED)
        }
    }
}

/// How long the supervisor stays with a command that runs.
enum Supervision {
    /// Not at all: the command runs in the background.
    None,
    /// Until the command ends.
    UntilItsEnd,
    /// Until the command ends; the supervisor ends it when the program that started it ends before.
    WithStarter,
}

/// Reads a description, and starts the command. Returns its pid, and how long to stay with it.
fn start(control: &UnixStream) -> Result<(Pid, Supervision), Failure> {
    let (streams, first) =
        Streams::receive(control).map_err(|error| Failure::of(Step::Description, &error))?;
    let description: Description =
        frame::read(continued(first, control)).map_err(|error| match error {
            FrameError::Version(_) => Failure::new(Step::Version, libc::EPROTO),
            FrameError::Malformed => Failure::new(Step::Description, libc::EBADMSG),
            FrameError::Read(error) => Failure::of(Step::Description, &error),
        })?;
    let pid = Command::new(&description, streams)?.start()?;
    let supervision = match (description.background, description.ends_with_starter) {
        (true, _) => Supervision::None,
        (false, false) => Supervision::UntilItsEnd,
        (false, true) => Supervision::WithStarter,
    };
    Ok((pid, supervision))
}

/// Waits for the end of the command, or of the program that started it, and ends the command in the second case. The
/// pid stays the command's, since nobody has reaped it.
fn end_with_starter(command: Pid, control: &UnixStream) {
    let Ok(ended) = pidfd_open(command, PidfdFlags::empty()) else {
        // Before Linux 5.3: the command goes on then.
        return;
    };
    loop {
        // The starter sends nothing: its end is readable when it is closed.
        let mut wanted = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::new(control, PollFlags::IN),
        ];
        match poll(&mut wanted, None) {
            Ok(_) if !wanted[0].revents().is_empty() => return,
            Ok(_) if !wanted[1].revents().is_empty() => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
    // Errors say that the group has ended.
    let _ = kill_process_group(command, Signal::TERM);
    let _ = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&POLITE));
    let _ = kill_process_group(command, Signal::KILL);
}

/// Waits for the end of the command, reports it, and keeps the pid until the daemon has let go of it.
fn supervise(command: Pid, supervision: Supervision, mut control: UnixStream) -> ExitCode {
    // A long command must not keep a file system from being unmounted.
    let _ = rustix::process::chdir("/");
    if matches!(supervision, Supervision::WithStarter) {
        end_with_starter(command, &control);
    }
    let end = loop {
        let kept = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(command), kept) {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => break End::Exited(code),
                (None, Some(signal)) => break End::Killed(signal),
                (None, None) => {}
            },
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            // Nobody else reaps it.
            Err(_) => return ExitCode::from(NOT_STARTED),
        }
    };
    report(&control, Report::Ended(end));
    // The daemon sends nothing more: this returns when the daemon closes its end, or is gone.
    let _ = control.read(&mut [0]);
    let _ = waitid(WaitId::Pid(command), WaitIdOptions::EXITED);
    ExitCode::from(u8::try_from(end.retcode()).unwrap_or(u8::MAX))
}

fn report(mut control: &UnixStream, report: Report) {
    if let Ok(frame) = frame::encode(&report) {
        // A daemon that is gone learns nothing, and the command goes on.
        let _ = control.write_all(&frame);
    }
}

/// Lets signals that end a whole session or service pass: they reach the command too, whose end is to be reported.
#[allow(
    unsafe_code,
    reason = "the standard library does not set what a signal does"
)]
fn ignore_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: no handler of this process is replaced, there is none.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
