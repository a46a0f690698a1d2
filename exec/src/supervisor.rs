//! The main of `saline-exec`: starts one command, and ends with it.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::command::Command;
use crate::end::{Failure, Report};
use crate::frame::{self, FrameError};
use crate::streams::{Streams, continued};
use crate::{Description, End, Step};

/// The exit code of `saline-exec` when it did not start a command.
const NOT_STARTED: u8 = 125;

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
        Ok((command, background)) => {
            ignore_signals();
            let pid = command.as_raw_nonzero().get().unsigned_abs();
            report(&control, Report::Started { pid });
            match background {
                true => ExitCode::SUCCESS,
                false => supervise(command, control),
            }
        }
        Err(failure) => {
            report(&control, Report::Failed(failure));
            ExitCode::from(NOT_STARTED)
        }
    }
}

/// Reads a description, and starts the command. Returns its pid, and whether it runs in the background.
fn start(control: &UnixStream) -> Result<(Pid, bool), Failure> {
    let (streams, first) =
        Streams::receive(control).map_err(|error| Failure::of(Step::Description, &error))?;
    let description: Description =
        frame::read(continued(first, control)).map_err(|error| match error {
            FrameError::Version(_) => Failure::new(Step::Version, libc::EPROTO),
            FrameError::Malformed => Failure::new(Step::Description, libc::EBADMSG),
            FrameError::Read(error) => Failure::of(Step::Description, &error),
        })?;
    let pid = Command::new(&description, streams)?.start()?;
    Ok((pid, description.background))
}

/// Waits for the end of the command, reports it, and keeps the pid until the daemon has let go of it.
fn supervise(command: Pid, mut control: UnixStream) -> ExitCode {
    // A long command must not keep a file system from being unmounted.
    let _ = rustix::process::chdir("/");
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

/// Closes every descriptor above 2.
#[allow(
    unsafe_code,
    reason = "no safe function closes descriptors that it does not own"
)]
fn close_inherited() {
    const FIRST: u32 = 3;
    // SAFETY: they were inherited, and no object of this process stands for one of them.
    if unsafe { libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, 0) } == 0 {
        return;
    }
    // Before Linux 5.9.
    let open = std::fs::read_dir("/proc/self/fd").map(|folder| {
        let names = folder.flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
        numbers.collect::<Vec<_>>()
    });
    for number in open.unwrap_or_default() {
        if number >= FIRST {
            // SAFETY: as above; that of the folder is closed already, which is an error without effect.
            unsafe { libc::close(number.cast_signed()) };
        }
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
