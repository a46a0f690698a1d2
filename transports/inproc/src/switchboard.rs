//! Names, and the listeners behind them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::DuplexStream;
use tokio::sync::mpsc;

/// Connections that wait to be accepted at one name.
const WAITING: usize = 1024;

/// The first port that is given to whoever asks for any.
const FIRST_FREE: u16 = 49_152;

/// The network of one [`InProc`](crate::InProc).
#[derive(Debug, Default)]
pub(crate) struct Switchboard(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    listeners: HashMap<String, mpsc::Sender<DuplexStream>>,
    /// The port that was given last.
    last_free: u16,
}

/// A name that is taken. Dropping it frees the name.
#[derive(Debug)]
pub(crate) struct TakenName {
    switchboard: Arc<Switchboard>,
    name: String,
}

impl Switchboard {
    fn names(&self) -> MutexGuard<'_, Names> {
        // The names are consistent after each statement, so a panic elsewhere does not spoil them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a name. `None` when it is taken already.
    pub(crate) fn listen(
        self: &Arc<Self>,
        name: String,
    ) -> Option<(TakenName, mpsc::Receiver<DuplexStream>)> {
        let (sender, accepted) = mpsc::channel(WAITING);
        let mut names = self.names();
        if names.listeners.contains_key(&name) {
            return None;
        }
        names.listeners.insert(name.clone(), sender);
        let taken = TakenName {
            switchboard: Arc::clone(self),
            name,
        };
        Some((taken, accepted))
    }

    /// Returns a port that no name of `host` has.
    pub(crate) fn free_port(&self, host: &str) -> Option<u16> {
        let mut names = self.names();
        for _ in FIRST_FREE..=u16::MAX {
            let next = names.last_free.checked_add(1).unwrap_or(FIRST_FREE);
            names.last_free = next.max(FIRST_FREE);
            if !names.listeners.contains_key(&format!("{host}:{next}")) {
                return Some(names.last_free);
            }
        }
        None
    }

    /// Returns the way to whoever listens at `name`.
    pub(crate) fn find(&self, name: &str) -> Option<mpsc::Sender<DuplexStream>> {
        self.names().listeners.get(name).cloned()
    }
}

impl Drop for TakenName {
    fn drop(&mut self) {
        self.switchboard.names().listeners.remove(&self.name);
    }
}
