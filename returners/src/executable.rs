//! The destination `executable`: any program. It is started for each batch and gets the records on its standard input, a line of
//! JSON for each.
//!
//! The program has taken the batch when it exits with 0. With 65 (`EX_DATAERR`) it refuses the records themselves; with anything
//! else it gets the batch again later. Its time is bounded, and of what it says on its standard error output the end is shown.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::process::Signal;
use saline_config::ExecutableReturner;
use saline_data::json;
use saline_exec::{Description, End, Launcher, Process, Streams};
use saline_protocol::transport::Context;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::{DeliveryError, Destination, Record};

/// The exit status by which a program refuses records.
const REFUSED: i32 = 65;

/// The bytes of the standard error output that are kept: its end.
const SHOWN: usize = 1024;

/// How long a program that was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);

/// A program that takes records.
#[derive(Debug)]
pub(crate) struct Executable {
    settings: ExecutableReturner,
    argv: Vec<CString>,
    launcher: Launcher,
    context: Context,
}

impl Executable {
    /// # Errors
    /// When the command cannot be one.
    pub(crate) fn new(
        settings: ExecutableReturner,
        launcher: Launcher,
        context: Context,
    ) -> Result<Self, String> {
        let words = settings.command.iter();
        let argv = words.map(|word| CString::new(word.as_bytes()));
        let argv = argv.collect::<Result<Vec<_>, _>>();
        Ok(Self {
            argv: argv.map_err(|_| "returner.executable.command has a NUL".to_owned())?,
            settings,
            launcher,
            context,
        })
    }

    async fn start(&self, input: Vec<u8>) -> Result<Running, String> {
        let (launcher, argv) = (self.launcher.clone(), self.argv.clone());
        let starting = self.context.spawn_blocking(move || {
            let (description, environment) = launcher.describe(argv);
            let description = Description {
                environment: environment
                    .into_strings()
                    .map_err(|error| error.to_string())?,
                ends_with_starter: true,
                ..description
            };
            let (said, error) = io::pipe().map_err(|error| error.to_string())?;
            let nowhere = File::options().write(true).open("/dev/null");
            let streams = Streams {
                input: file_of(&input).map_err(|error| error.to_string())?,
                output: nowhere.map_err(|error| error.to_string())?.into(),
                error: error.into(),
            };
            let started = launcher.start(&description, streams);
            let process = started.map_err(|error| error.to_string())?;
            Ok::<_, String>((process, OwnedFd::from(said)))
        });
        let (process, said) = starting.await.map_err(|error| error.to_string())??;
        Running::new(process, said).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Destination for Executable {
    async fn deliver(&mut self, records: &[Record]) -> Result<(), DeliveryError> {
        let mut input = Vec::new();
        for record in records {
            input.extend(json::line(&record.to_value()));
            input.push(b'\n');
        }
        let program = self.settings.command.first().map_or("", String::as_str);
        let mut running = self.start(input).await.map_err(DeliveryError::Away)?;
        let clock = self.context.clock;
        let until = clock.after(self.settings.timeout);
        let ended = clock.deadline(until, running.ended()).await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(_) => {
                running.signal(Signal::TERM);
                // What does not end now is killed when this is dropped.
                let _ = clock.deadline(clock.after(GRACE), running.ended()).await;
                return Err(DeliveryError::Away(format!(
                    "{program} took longer than {} s and was ended{}",
                    self.settings.timeout.as_secs_f64(),
                    running.said()
                )));
            }
        };
        let said = running.said();
        match ended {
            Ok(End::Exited(0)) => Ok(()),
            Ok(End::Exited(REFUSED)) => Err(DeliveryError::Refused(format!(
                "{program} refused them{said}"
            ))),
            Ok(end) => Err(DeliveryError::Away(format!(
                "{program} {}{said}",
                shown(end)
            ))),
            Err(error) => Err(DeliveryError::Away(format!("{program}: {error}"))),
        }
    }
}

fn shown(end: End) -> String {
    match end {
        End::Exited(code) => format!("exited with {code}"),
        End::Killed(signal) => format!("was ended by signal {signal}"),
    }
}

/// Returns a file in memory with these bytes, to be read from the beginning.
fn file_of(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("records", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file.into())
}

/// Watches a descriptor for something to read.
#[allow(
    unsafe_code,
    reason = "tokio takes no descriptor that could be closed meanwhile"
)]
fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps one open descriptor until it is dropped, which `AsyncFd` does after it was deregistered.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}

/// A program that runs. It is killed, with its process group, when this is dropped.
struct Running {
    /// Readable when the program has ended. Before the process, whose end waits until nobody has this any more.
    control: AsyncFd<OwnedFd>,
    process: Process,
    /// The end of the standard error output.
    pipe: AsyncFd<OwnedFd>,
    last: Vec<u8>,
    is_open: bool,
    has_ended: bool,
}

impl Running {
    fn new(process: Process, pipe: OwnedFd) -> io::Result<Self> {
        rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        let control = process.as_fd().try_clone_to_owned()?;
        Ok(Self {
            control: watched(control)?,
            pipe: watched(pipe)?,
            process,
            last: Vec::new(),
            is_open: true,
            has_ended: false,
        })
    }

    /// Reads what the program says, and waits for its end.
    async fn ended(&mut self) -> io::Result<End> {
        loop {
            tokio::select! {
                biased;
                ready = self.pipe.readable(), if self.is_open => {
                    let mut ready = ready?;
                    let mut bytes = [0; 4096];
                    match ready.try_io(|pipe| Ok(rustix::io::read(pipe.get_ref(), &mut bytes)?)) {
                        Ok(Ok(0)) => self.is_open = false,
                        Ok(Ok(count)) => {
                            self.last.extend(&bytes[..count]);
                            let surplus = self.last.len().saturating_sub(SHOWN);
                            self.last.drain(..surplus);
                        }
                        Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                        Ok(Err(_)) => self.is_open = false,
                        Err(_) => {}
                    }
                }
                ready = self.control.readable() => {
                    match self.process.try_wait()? {
                        Some(end) => {
                            self.has_ended = true;
                            return Ok(end);
                        }
                        None => ready?.clear_ready(),
                    }
                }
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // It may have ended meanwhile; its pid is reserved until the process is dropped.
        let _ = rustix::process::kill_process_group(self.process.pid(), signal);
    }

    /// Returns the last line that the program said, for the end of a message.
    fn said(&self) -> String {
        let text = String::from_utf8_lossy(&self.last);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.map_or(String::new(), |line| {
            format!(": {}", saline_data::printable::escape_line(line.trim()))
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended {
            self.signal(Signal::KILL);
        }
    }
}
