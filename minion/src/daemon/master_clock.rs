//! The master's time, by which jobs expire.

use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};
use saline_protocol::message::MasterTime;

/// The master's clock, as an offset to a clock of this machine that never steps and also runs while
/// the machine sleeps.
#[derive(Debug, Default)]
pub struct MasterClock(Mutex<Option<Offset>>);

#[derive(Debug, Clone, Copy)]
struct Offset {
    local: u64,
    master: MasterTime,
}

impl MasterClock {
    /// Sets the master's time to `time`.
    pub fn set(&self, time: MasterTime) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Offset {
            local: since_boot(),
            master: time,
        });
    }

    /// Returns the master's time; none before it was set.
    pub fn now(&self) -> Option<MasterTime> {
        let offset = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        offset.map(|offset| offset.master + since_boot().saturating_sub(offset.local))
    }
}

fn since_boot() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (time.tv_sec, time.tv_nsec);
    u64::try_from(seconds).unwrap_or_default() * 1000
        + u64::try_from(nanoseconds).unwrap_or_default() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_what_the_master_said() {
        let clock = MasterClock::default();
        assert_eq!(clock.now(), None);
        clock.set(1_000_000);
        let now = clock.now().unwrap();
        assert!((1_000_000..1_010_000).contains(&now), "{now}");
    }
}
