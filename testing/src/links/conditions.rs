//! The conditions on a link.

use std::time::Duration;

use saline_protocol::transport::Clock;
use tokio::sync::watch;

/// The conditions on a link, the same in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conditions {
    /// How long everything is under way.
    pub delay: Duration,
    /// The bytes that pass in a second, at least one; without it all that come.
    pub bytes_a_second: Option<u64>,
    /// Whether nothing passes. Connections do not end by it.
    pub black_hole: bool,
    /// How many of a thousand datagrams are lost.
    pub lost: u16,
    /// How many of a thousand datagrams come twice.
    pub doubled: u16,
    /// How many of a thousand datagrams come after the one behind them.
    pub reordered: u16,
    /// How often all connections were cut.
    pub(super) cuts: u64,
}

impl Conditions {
    pub(super) fn clear(&mut self) {
        *self = Self {
            cuts: self.cuts,
            ..Self::default()
        };
    }

    /// Returns how long so many bytes occupy the link.
    fn occupied_by(&self, bytes: usize) -> Duration {
        self.bytes_a_second.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64)
        })
    }
}

/// Occupies the link for as long as so many bytes take.
pub(super) async fn occupy(conditions: &watch::Receiver<Conditions>, bytes: usize) {
    let pause = conditions.borrow().occupied_by(bytes);
    if !pause.is_zero() {
        Clock.pause(pause).await;
    }
}

/// Waits until something passes. Returns false when the link is gone.
pub(super) async fn passable(conditions: &mut watch::Receiver<Conditions>) -> bool {
    conditions.wait_for(|now| !now.black_hole).await.is_ok()
}

/// Waits for the next cut after so many.
pub(super) async fn cut(mut conditions: watch::Receiver<Conditions>, after: u64) {
    // An error means that the link is gone, which is as good as a cut.
    let _ = conditions.wait_for(|now| now.cuts > after).await;
}
