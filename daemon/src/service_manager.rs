//! The notifications of a daemon to the service manager that started it, by the protocol of `sd_notify`.

use std::time::Duration;

use sd_notify::NotifyState;

/// The service manager that started this process. Without one, every call does nothing.
#[derive(Debug, Clone, Copy)]
pub struct ServiceManager {
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Returns the service manager that the environment of this process names.
    pub fn of_this_process() -> Self {
        Self {
            watchdog: sd_notify::watchdog_enabled(),
        }
    }

    /// Returns the interval at which the service manager has to be told that the daemon is alive: half of the time after which
    /// the service manager ends the daemon. Returns `None` when it does not watch.
    pub fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog.map(|most| most / 2)
    }

    /// Tells that the daemon serves, at the start and after a reload.
    pub fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// Tells that the daemon reads its configuration again; [`ready`](Self::ready) ends that.
    pub fn reloading(&self) {
        let mut states = vec![NotifyState::Reloading];
        states.extend(NotifyState::monotonic_usec_now().ok());
        tell(&states);
    }

    /// Tells that the daemon stops.
    pub fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// Tells what the daemon is doing, in one line that `systemctl status` shows.
    pub fn status(&self, line: &str) {
        tell(&[NotifyState::Status(line)]);
    }

    /// Tells that the daemon is alive.
    pub fn alive(&self) {
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("the service manager was not told {states:?}: {error}");
    }
}
