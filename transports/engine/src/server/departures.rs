//! The stream of departures: which admitted peers have gone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use saline_protocol::transport::{Departure, Departures, Peer};
use tokio::sync::Notify;

use super::ServerCore;
use crate::lock;

/// Departures that were not read yet.
#[derive(Debug)]
pub(super) struct DepartureQueue {
    state: Mutex<State>,
    most: usize,
    told: Notify,
}

#[derive(Debug, Default)]
struct State {
    gone: VecDeque<Peer>,
    missed: u64,
    has_ended: bool,
    is_abandoned: bool,
}

impl DepartureQueue {
    /// Returns a queue that holds `most` departures.
    pub(super) fn new(most: usize) -> Self {
        Self {
            state: Mutex::default(),
            most,
            told: Notify::new(),
        }
    }

    /// Tells that a peer has gone.
    pub(super) fn push(&self, peer: Peer) {
        let mut state = lock(&self.state);
        if state.has_ended || state.is_abandoned {
            return;
        }
        match state.gone.len() < self.most {
            true => state.gone.push_back(peer),
            false => state.missed += 1,
        }
        drop(state);
        self.told.notify_one();
    }

    /// Ends the stream once it was read.
    pub(super) fn end(&self) {
        lock(&self.state).has_ended = true;
        self.told.notify_one();
    }
}

/// Yields departures.
#[derive(Debug)]
pub(super) struct EngineDepartures {
    pub(super) core: Arc<ServerCore>,
}

#[async_trait]
impl Departures for EngineDepartures {
    async fn next(&mut self) -> Option<Departure> {
        let queue = &self.core.departures;
        loop {
            {
                let mut state = lock(&queue.state);
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
            queue.told.notified().await;
        }
    }
}

impl Drop for EngineDepartures {
    fn drop(&mut self) {
        let mut state = lock(&self.core.departures.state);
        state.is_abandoned = true;
        state.gone = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_that_nobody_reads_are_counted() {
        let queue = DepartureQueue::new(2);
        for connection in 0..5 {
            queue.push(Peer::new(connection, None));
        }
        let state = lock(&queue.state);
        assert_eq!((state.gone.len(), state.missed), (2, 3));
    }
}
