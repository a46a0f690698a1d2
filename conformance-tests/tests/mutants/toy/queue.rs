//! What waits for one subscriber: bounded, and what is lost is counted at its place.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use saline_protocol::transport::{AdmissionLimits, Delivery, Limits, Lost};
use tokio::sync::Notify;

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Delivery>,
    messages: usize,
    bytes: usize,
    ended: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Notify,
    messages: usize,
    bytes: usize,
}

/// Where deliveries go in.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    /// The limits of one whose peer is not admitted.
    pub tight: Option<(Arc<AtomicBool>, AdmissionLimits)>,
}

/// Where they come out.
#[derive(Debug)]
pub struct Receiver(Arc<Shared>);

pub fn queue(limits: &Limits) -> (Sender, Receiver) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        wake: Notify::new(),
        messages: limits.subscriber_queue_messages,
        bytes: limits.subscriber_queue_bytes,
    });
    let sender = Sender {
        shared: Arc::clone(&shared),
        tight: None,
    };
    (sender, Receiver(shared))
}

impl Sender {
    /// Queues `delivery`; wakes its reader, or not. Returns how many messages were lost.
    pub fn push(&self, delivery: Delivery, wake: bool) -> u64 {
        let shared = &self.shared;
        let (messages, bytes) = match &self.tight {
            Some((admitted, tight)) if !admitted.load(Ordering::Relaxed) => {
                (tight.queue_messages, tight.queue_bytes)
            }
            _ => (shared.messages, shared.bytes),
        };
        let mut state = shared.state.lock().unwrap();
        let size = match &delivery {
            Delivery::Message { payload, .. } => Some(payload.len()),
            _ => None,
        };
        let full = size.is_some_and(|size| {
            let held = state.bytes.saturating_add(size);
            state.messages >= messages || (state.messages > 0 && held > bytes)
        });
        let lost = u64::from(full);
        let delivery = match full {
            true => Delivery::Lagged(Lost::Messages(1)),
            false => delivery,
        };
        match (state.queue.back_mut(), delivery) {
            (Some(Delivery::Lagged(Lost::Messages(n))), Delivery::Lagged(Lost::Messages(more))) => {
                *n += more
            }
            (_, delivery) => state.queue.push_back(delivery),
        }
        if let (false, Some(size)) = (full, size) {
            state.messages += 1;
            state.bytes += size;
        }
        if wake {
            shared.wake.notify_one();
        }
        lost
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap().ended = true;
        self.shared.wake.notify_one();
    }
}

impl Receiver {
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            {
                let mut state = self.0.state.lock().unwrap();
                if let Some(delivery) = state.queue.pop_front() {
                    if let Delivery::Message { payload, .. } = &delivery {
                        state.messages -= 1;
                        state.bytes -= payload.len();
                    }
                    return Some(delivery);
                }
                if state.ended {
                    return None;
                }
            }
            self.0.wake.notified().await;
        }
    }
}
