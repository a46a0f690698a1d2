//! The process of a running program.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use saline_exec::{End, LaunchError, Process, Streams};
use saline_protocol::transport::{Clock, Instant};

use super::{Command, CommandError, Finished, Output};
use crate::host::Host;
use crate::job::{CommandProcess, JobControl, StartError, timespec};

/// How long a process group may take to end after SIGTERM, before SIGKILL.
const POLITE: Duration = Duration::from_millis(500);

/// The bytes that are read from a stream at once.
const CHUNK: usize = 64 * 1024;

impl Command {
    /// Runs the program to its end on this thread; in the background, only starts it.
    ///
    /// Output is read until the program itself ends. Output of processes that it left in the
    /// background is not waited for. Signals to `job` reach the program's process group.
    ///
    /// # Errors
    /// When the program cannot be started, when the minion stops, and when the job was ended before.
    pub fn run(&self, host: &Host, job: &JobControl) -> Result<Finished, CommandError> {
        if self.background {
            return self.start_in_background(host, job);
        }
        let description = self.describe(&host.launcher)?;
        let (stdout, output_end) = io::pipe()?;
        let (stderr, error_end) = if self.merged {
            (None, output_end.try_clone()?)
        } else {
            let (reader, writer) = io::pipe()?;
            (Some(reader), writer)
        };
        let (stdin, input_end) = if self.input.is_empty() {
            (None, null()?)
        } else {
            let (reader, writer) = io::pipe()?;
            (Some(writer), OwnedFd::from(reader))
        };
        let streams = Streams {
            input: input_end,
            output: output_end.into(),
            error: error_end.into(),
        };
        let started = job.start_command(|| {
            let process = host.launcher.start(&description, streams)?;
            Ok((process.pid(), process))
        });
        let (process, group) = started.map_err(|error| self.not_started(error))?;
        let output = || Output::new(host.max_payload(), self.file_most(host), &host.cache_dir);
        let running = Running {
            group: Group::of(process, group),
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

    /// Starts the program, and lets go of it.
    fn start_in_background(&self, host: &Host, job: &JobControl) -> Result<Finished, CommandError> {
        let description = self.describe(&host.launcher)?;
        let streams = Streams {
            input: memory_file(&self.input)?,
            output: null()?,
            error: null()?,
        };
        let started = job.start_command(|| {
            let pid = host.launcher.start_in_background(description, streams)?;
            Ok((pid, pid))
        });
        let (pid, _) = started.map_err(|error| self.not_started(error))?;
        let nothing = || Output::new(0, 0, &host.cache_dir);
        Ok(Finished {
            pid: pid.as_raw_nonzero().get().unsigned_abs(),
            retcode: 0,
            timed_out: false,
            stdout: nothing(),
            stderr: nothing(),
        })
    }

    fn file_most(&self, host: &Host) -> u64 {
        match self.discards_output {
            true => 0,
            false => host.output_file_size(),
        }
    }

    fn not_started(&self, error: StartError<LaunchError>) -> CommandError {
        match error {
            StartError::Ended(ending) => CommandError::Ended(ending),
            StartError::Spawn(error) => self.not_launched(error),
        }
    }
}

/// Returns a descriptor that takes everything and gives nothing.
fn null() -> io::Result<OwnedFd> {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    Ok(file?.into())
}

/// Returns a descriptor from which `bytes` can be read when nobody is left to write them.
fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    if bytes.is_empty() {
        return null();
    }
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("input", flags)?);
    file.write_all(bytes)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// A command that leads a process group. Dropping it before its end kills the whole group.
struct Group<'a> {
    process: Process,
    signals: CommandProcess<'a>,
    end: Option<End>,
}

impl<'a> Group<'a> {
    fn of(process: Process, signals: CommandProcess<'a>) -> Self {
        Self {
            process,
            signals,
            end: None,
        }
    }

    fn ended(&mut self) -> io::Result<bool> {
        if self.end.is_none() {
            self.end = self.process.try_wait()?;
        }
        Ok(self.end.is_some())
    }

    /// Ends every process of the group: with SIGTERM, then with SIGKILL.
    fn kill(&mut self) -> io::Result<()> {
        if self.end.is_some() {
            return Ok(());
        }
        self.signals.signal(Signal::TERM);
        let mut wanted = [PollFd::new(&self.process, PollFlags::IN)];
        // An error only makes the wait shorter.
        let _ = poll(&mut wanted, Some(&timespec(POLITE)));
        // Also when the leader obeyed: other processes of the group may not have.
        self.signals.signal(Signal::KILL);
        self.end = Some(self.process.wait()?);
        Ok(())
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.signals.signal(Signal::KILL);
        }
        // Before the process is dropped, with which its number becomes free.
        self.signals.detach();
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
        let retcode = self.group.end.map_or(-1, |end| i64::from(end.retcode()));
        let pid = self.group.process.pid();
        let [stdout, stderr] = self.printed;
        Ok(Finished {
            pid: pid.as_raw_nonzero().get().unsigned_abs(),
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
        wanted.push(PollFd::new(&self.group.process, PollFlags::IN));
        let timeout = deadline.map(|at| at.saturating_duration_since(Clock.now()));
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
