//! A process, until it has ended.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A process that this one has started. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a process.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self::from)
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal; none when the process has ended.
    pub fn signal(&self, signal: Signal) {
        // An error says that it has just ended, which is noticed elsewhere.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Returns the status of the process if it has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills the process with SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the end of the process, and kills it when it has not ended within `time`.
    ///
    /// # Errors
    /// When it had to be killed.
    pub fn wait(&mut self, time: Duration) -> io::Result<ExitStatus> {
        ended(&mut self.child, time)
    }
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self { child }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the end of a process, and kills it when it has not ended within `time`.
///
/// # Errors
/// When it had to be killed.
pub fn ended(child: &mut Child, time: Duration) -> io::Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(child.wait()));
        receiver.recv_timeout(time).unwrap_or_else(|_| {
            // It may end at this moment.
            let _ = kill_process(pid, Signal::KILL);
            let message = format!("process {pid:?} has not ended within {} s", time.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        })
    })
}
