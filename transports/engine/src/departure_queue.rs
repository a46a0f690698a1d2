//! The bounded stream of departures: which admitted peers have gone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use saline_protocol::transport::{Departure, Departures, Limits, Peer};
use tokio::sync::Notify;

use crate::lock;

/// Returns both ends of a server's stream of departures. It holds up to
/// [`Limits::connections`] departures that nobody has read, and counts those above.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use saline_engine::departure_queue;
/// use saline_protocol::transport::{Departure, Departures, Limits, Peer, Source};
///
/// let mut limits = Limits::default();
/// limits.connections = 1;
/// let (sender, mut receiver) = departure_queue(&limits);
/// let peers = [1, 2, 3].map(|connection| Peer::new(connection, Source::Process));
/// peers.iter().for_each(|peer| sender.push(*peer));
/// sender.end();
///
/// assert_eq!(receiver.next().await, Some(Departure::Gone(peers[0])));
/// assert_eq!(receiver.next().await, Some(Departure::Missed(2)));
/// assert_eq!(receiver.next().await, None);
/// # }
/// ```
pub fn departure_queue(limits: &Limits) -> (DepartureSender, DepartureReceiver) {
    let shared = Arc::new(SharedDepartures {
        state: Mutex::default(),
        most: limits.connections,
        told: Notify::new(),
    });
    (
        DepartureSender(Arc::clone(&shared)),
        DepartureReceiver(shared),
    )
}

#[derive(Debug)]
struct SharedDepartures {
    state: Mutex<DepartureState>,
    most: usize,
    told: Notify,
}

#[derive(Debug, Default)]
struct DepartureState {
    gone: VecDeque<Peer>,
    missed: u64,
    has_ended: bool,
    is_abandoned: bool,
}

/// Tells departures.
#[derive(Debug)]
pub struct DepartureSender(Arc<SharedDepartures>);

impl DepartureSender {
    /// Tells that a peer has gone.
    pub fn push(&self, peer: Peer) {
        let mut state = lock(&self.0.state);
        if state.has_ended || state.is_abandoned {
            return;
        }
        match state.gone.len() < self.0.most {
            true => state.gone.push_back(peer),
            false => state.missed += 1,
        }
        drop(state);
        self.0.told.notify_one();
    }

    /// Ends the stream once it was read.
    pub fn end(&self) {
        lock(&self.0.state).has_ended = true;
        self.0.told.notify_one();
    }
}

/// Yields departures.
#[derive(Debug)]
pub struct DepartureReceiver(Arc<SharedDepartures>);

#[async_trait]
impl Departures for DepartureReceiver {
    async fn next(&mut self) -> Option<Departure> {
        loop {
            {
                let mut state = lock(&self.0.state);
                if let Some(peer) = state.gone.pop_front() {
                    return Some(Departure::Gone(peer));
                }
                if state.missed > 0 {
                    return Some(Departure::Missed(std::mem::take(&mut state.missed)));
                }
                if state.has_ended {
                    return None;
                }
            }
            self.0.told.notified().await;
        }
    }
}

impl Drop for DepartureReceiver {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.is_abandoned = true;
        state.gone = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Source;

    #[test]
    fn departures_that_nobody_reads_are_counted() {
        let mut limits = Limits::default();
        limits.connections = 2;
        let (sender, _receiver) = departure_queue(&limits);
        for connection in 0..5 {
            sender.push(Peer::new(connection, Source::Process));
        }
        let state = lock(&sender.0.state);
        assert_eq!((state.gone.len(), state.missed), (2, 3));
    }
}
