//! The flag that interrupts functions: those of a minion that stops, or that of one job.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// A flag that threads can wait for, alone or together with other descriptors. Once raised it stays
/// raised.
#[derive(Debug)]
pub struct Stop(OwnedFd);

impl Stop {
    /// Creates a flag that is not raised.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Raises the flag, which wakes every thread that waits for it.
    pub fn raise(&self) {
        // The write fails only when the counter is full, and then the flag is raised already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits for `duration`. Returns whether the flag was raised before its end.
    pub fn wait(&self, duration: Duration) -> bool {
        wait_for_any([self], duration)
    }
}

/// Waits for `duration`. Returns whether one of the flags was raised before its end.
pub fn wait_for_any<const N: usize>(flags: [&Stop; N], duration: Duration) -> bool {
    let clock = saline_protocol::transport::Clock;
    let deadline = clock.now().checked_add(duration);
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(clock.now()));
        // Half an hour at most, so that no duration is too long for the system call.
        let slice = left.map_or(LONGEST, |left| left.min(LONGEST));
        let mut wanted = flags.map(|flag| PollFd::new(flag, PollFlags::IN));
        let timeout = timespec(slice);
        if let Ok(1..) = poll(&mut wanted, Some(&timeout)) {
            return true;
        }
        if left.is_some_and(|left| left <= slice && deadline_passed(deadline)) {
            return false;
        }
    }
}

/// The longest single wait of the system call.
const LONGEST: Duration = Duration::from_secs(1800);

fn deadline_passed(deadline: Option<saline_protocol::transport::Instant>) -> bool {
    deadline.is_some_and(|at| saline_protocol::transport::Clock.now() >= at)
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Converts a duration for `poll`.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_those_who_wait_and_stays_up() {
        let stop = Stop::new().unwrap();
        assert!(!stop.wait(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| stop.wait(Duration::MAX));
            stop.raise();
            assert!(waiting.join().unwrap());
        });
        assert!(stop.wait(Duration::from_secs(100)));
    }
}
