//! A daemon process and its log.

use std::fs::File;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;

use super::{Log, Process, TIMEOUT};

/// A master or a minion, and what it logs. Dropping it kills it.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    /// What it has logged.
    pub log: Arc<Log>,
}

impl Daemon {
    /// Starts a daemon for a test.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[track_caller]
    pub fn spawn(command: &mut Command) -> Self {
        let started = Self::start(command, None);
        started.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Starts a daemon. Its log is copied into the file as well.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: &mut Command, copy: Option<File>) -> io::Result<Self> {
        let mut child: Child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take();
        let process = Process::from(child);
        let stream = stderr.ok_or_else(|| io::Error::other("a daemon without a log"))?;
        let log = match copy {
            Some(file) => Log::copy(stream, file),
            None => Log::follow(stream),
        };
        Ok(Self { process, log })
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends a signal; none when the daemon has ended.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Kills the daemon with SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops the daemon with SIGTERM, waits until its log is whole, and returns its exit code.
    ///
    /// # Panics
    /// When it has not ended after [`TIMEOUT`].
    #[track_caller]
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for the end of the daemon, and kills it when it has not ended within `time`.
    ///
    /// # Errors
    /// When it had to be killed.
    pub fn end(&mut self, time: Duration) -> io::Result<ExitStatus> {
        self.process.wait(time)
    }

    /// Waits until the daemon ends by itself and its log is whole, and returns its exit code.
    ///
    /// # Panics
    /// When it has not ended after [`TIMEOUT`].
    #[track_caller]
    pub fn wait(&mut self) -> Option<i32> {
        match self.end(TIMEOUT) {
            Ok(status) => {
                // The last lines may still be on their way through the pipe.
                self.log.wait_for_end();
                status.code()
            }
            Err(error) => panic!("{error}; its log:\n{}", self.log.text()),
        }
    }
}
