//! The process of a running program.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use saline_protocol::transport::{Clock, Instant};

use super::orphans::{self, Noted};
use super::{Command, CommandError, Finished, Output};
use crate::executor::{CommandProcess, JobControl, StartError, timespec};
use crate::host::Host;

/// How long a process group may take to end after SIGTERM, before SIGKILL.
const POLITE: Duration = Duration::from_millis(500);

/// How often to check whether the program has ended on systems without pidfd.
const WITHOUT_PIDFD: Duration = Duration::from_millis(20);

/// The bytes that are read from a stream at once.
const CHUNK: usize = 64 * 1024;

impl Command {
    /// Runs the program to its end on this thread.
    ///
    /// Output is read until the program itself ends. Output of processes that it left in the
    /// background is not waited for. Signals to `job` reach the program's process group.
    ///
    /// # Errors
    /// When the program cannot be started, when the minion stops, and when the job was ended before.
    pub fn run(&self, host: &Host, job: &JobControl) -> Result<Finished, CommandError> {
        let (program, arguments) = self.argv.split_first().ok_or(CommandError::Empty)?;
        let mut command = std::process::Command::new(program);
        command.args(arguments).process_group(0);
        if self.clean_environment {
            command.env_clear();
        }
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let (stdout, writer) = io::pipe()?;
        let stderr = if self.merged {
            command.stderr(writer.try_clone()?);
            None
        } else {
            let (reader, writer) = io::pipe()?;
            command.stderr(writer);
            Some(reader)
        };
        command.stdout(writer);
        let stdin = if self.input.is_empty() {
            command.stdin(Stdio::null());
            None
        } else {
            let (reader, writer) = io::pipe()?;
            command.stdin(reader);
            Some(writer)
        };
        let started = job.start_command(|| command.spawn());
        let (child, process) = started.map_err(|error| match error {
            StartError::Ended(ending) => CommandError::Ended(ending),
            StartError::Spawn(source) => CommandError::Start {
                program: program.clone(),
                source,
            },
        })?;
        // Closes this process's copies of the program's pipe ends; otherwise the streams would
        // never end.
        drop(command);
        let file_most = match self.discards_output {
            true => 0,
            false => host.output_file_size(),
        };
        let output = || Output::new(host.max_payload(), file_most, &host.cache_dir);
        let running = Running {
            group: Group::of(child, process, host),
            stdin,
            written: 0,
            stdout: Some(nonblocking(stdout)?),
            stderr: stderr.map(nonblocking).transpose()?,
            printed: [output(), output()],
            chunk: vec![0; CHUNK].into(),
        };
        if let Some(stdin) = &running.stdin {
            set_nonblocking(stdin)?;
        }
        running.until_it_ends(self, host)
    }
}

/// A child that leads a process group. Dropping it before its end kills the whole group.
struct Group<'a> {
    child: Child,
    process: CommandProcess<'a>,
    pidfd: Option<OwnedFd>,
    status: Option<ExitStatus>,
    _noted: Option<Noted>,
}

impl<'a> Group<'a> {
    fn of(child: Child, process: CommandProcess<'a>, host: &Host) -> Self {
        let noted = orphans::note(&host.cache_dir, child.id())
            .inspect_err(|error| tracing::debug!("cannot note a running command: {error}"));
        let pidfd = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default())
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self {
            child,
            process,
            pidfd,
            status: None,
            _noted: noted.ok(),
        }
    }

    fn ended(&mut self) -> io::Result<bool> {
        if self.status.is_none() {
            self.status = self.process.status(&mut self.child)?;
        }
        Ok(self.status.is_some())
    }

    /// Ends every process of the group: with SIGTERM, then with SIGKILL.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        if let Some(pidfd) = &self.pidfd {
            self.process.signal(Signal::TERM);
            let mut wanted = [PollFd::new(pidfd, PollFlags::IN)];
            // An error only makes the wait shorter.
            let _ = poll(&mut wanted, Some(&timespec(POLITE)));
        }
        // Also when the leader obeyed: other processes of the group may not have. The leader has
        // not been waited for, so its number still identifies the group.
        self.process.signal(Signal::KILL);
        self.process.detach();
        let status = self.child.wait()?;
        self.status = Some(status);
        Ok(status)
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.process.signal(Signal::KILL);
            self.process.detach();
            let _ = self.child.wait();
        }
    }
}

struct Running<'a> {
    group: Group<'a>,
    stdin: Option<PipeWriter>,
    written: usize,
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
    printed: [Output; 2],
    chunk: Box<[u8]>,
}

/// The reason why a wait ended.
enum Woken {
    Streams,
    Stopped,
}

impl Running<'_> {
    fn until_it_ends(mut self, command: &Command, host: &Host) -> Result<Finished, CommandError> {
        let deadline = command.timeout.and_then(|t| Clock.now().checked_add(t));
        let mut timed_out = false;
        loop {
            self.transfer(&command.input)?;
            if self.group.ended()? {
                // Reads the output that was written just before the end.
                self.transfer(&command.input)?;
                break;
            }
            if deadline.is_some_and(|deadline| Clock.now() >= deadline) {
                timed_out = true;
                self.group.kill()?;
                self.transfer(&command.input)?;
                break;
            }
            if matches!(self.wait(host, deadline)?, Woken::Stopped) {
                self.group.kill()?;
                return Err(CommandError::Stopped);
            }
        }
        let retcode = match self.group.status {
            Some(status) => retcode(status),
            None => -1,
        };
        let [stdout, stderr] = self.printed;
        Ok(Finished {
            pid: self.group.child.id(),
            retcode,
            timed_out,
            stdout,
            stderr,
        })
    }

    /// Waits until a stream is ready, the program has ended, the timeout has passed, or the minion
    /// stops.
    fn wait(&self, host: &Host, deadline: Option<Instant>) -> io::Result<Woken> {
        let stop = host.stop.as_fd();
        let mut wanted = Vec::with_capacity(5);
        wanted.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
        for reader in [&self.stdout, &self.stderr].into_iter().flatten() {
            wanted.push(PollFd::new(reader, PollFlags::IN));
        }
        if let Some(writer) = &self.stdin {
            wanted.push(PollFd::new(writer, PollFlags::OUT));
        }
        if let Some(pidfd) = &self.group.pidfd {
            wanted.push(PollFd::new(pidfd, PollFlags::IN));
        }
        let mut timeout = deadline.map(|at| at.saturating_duration_since(Clock.now()));
        if self.group.pidfd.is_none() {
            timeout = Some(timeout.map_or(WITHOUT_PIDFD, |left| left.min(WITHOUT_PIDFD)));
        }
        match poll(&mut wanted, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(if wanted[0].revents().is_empty() {
            Woken::Streams
        } else {
            Woken::Stopped
        })
    }

    /// Writes and reads as much as possible without waiting.
    fn transfer(&mut self, input: &[u8]) -> io::Result<()> {
        if let Some(writer) = &mut self.stdin {
            let done = loop {
                match writer.write(&input[self.written..]) {
                    Ok(n) => self.written += n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    // The program does not read its input, which is no failure.
                    Err(_) => break true,
                }
                if self.written == input.len() {
                    break true;
                }
            };
            if done {
                self.stdin = None;
            }
        }
        let [stdout, stderr] = &mut self.printed;
        drain(&mut self.stdout, stdout, &mut self.chunk)?;
        drain(&mut self.stderr, stderr, &mut self.chunk)
    }
}

/// Reads until nothing is available or the stream has ended; closes ended streams.
fn drain(
    stream: &mut Option<PipeReader>,
    printed: &mut Output,
    chunk: &mut [u8],
) -> io::Result<()> {
    let Some(reader) = stream else {
        return Ok(());
    };
    // Bounded, so that a program that prints without end does not outrun its timeout.
    for _ in 0..16 {
        match reader.read(chunk) {
            Ok(0) => {
                *stream = None;
                return Ok(());
            }
            Ok(n) => printed.push(&chunk[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn retcode(status: ExitStatus) -> i64 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .map_or(-1, i64::from)
}

fn nonblocking(reader: PipeReader) -> io::Result<PipeReader> {
    set_nonblocking(&reader)?;
    Ok(reader)
}

/// Sets only this end of the pipe: each end has its own flags.
fn set_nonblocking(end: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&end)?;
    rustix::fs::fcntl_setfl(&end, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(())
}
