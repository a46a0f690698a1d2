//! The signals that a daemon acts on.

use tokio::signal::unix::{self, SignalKind};

/// A signal that a daemon acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// SIGTERM or SIGINT: drain, and end with 0.
    Terminate,
    /// SIGHUP: read the configuration again, and reopen the log file.
    Reload,
    /// SIGUSR1: log what every part is doing.
    Report,
}

/// A listener for signals; it receives those that come after its creation.
#[derive(Debug)]
pub struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
    user1: unix::Signal,
}

impl Signals {
    /// Starts listening. Needs a running runtime.
    ///
    /// # Errors
    /// When the system refuses a signal handler.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            hangup: unix::signal(SignalKind::hangup())?,
            user1: unix::signal(SignalKind::user_defined1())?,
        })
    }

    /// Returns the next signal.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Terminate,
            _ = self.hangup.recv() => Signal::Reload,
            _ = self.user1.recv() => Signal::Report,
        }
    }
}
