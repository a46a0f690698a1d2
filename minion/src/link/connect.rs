//! Connects to a master: tries the configured transports in order, each with all its addresses.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_protocol::transport::{Context, Endpoint};

use super::candidate::{Candidate, Connected};
use super::connection_state::{ConnectionState, CurrentState};
use super::settings::{Changes, LiveConnectionSettings};

/// The largest number of different errors that are remembered as logged.
const MAX_LOGGED: usize = 32;

/// Connects to the first candidate that answers.
#[derive(Debug)]
pub struct Connector {
    settings: LiveConnectionSettings,
    state: CurrentState,
    context: Context,
    /// The errors that were logged since the last connection.
    logged: Mutex<BTreeSet<String>>,
}

impl Connector {
    /// Creates a connector whose clients belong to `context`.
    pub fn new(settings: LiveConnectionSettings, state: CurrentState, context: Context) -> Self {
        Self {
            settings,
            state,
            context,
            logged: Mutex::default(),
        }
    }

    /// Connects to the first candidate that answers; retries indefinitely, with the settings of each moment. The
    /// candidates at `failed`, which were connected and of no use, are tried after the others, in the order of
    /// `failed`. The settings that were used are seen by `changes` then.
    ///
    /// # Cancel safety
    /// When the future is dropped nothing stays connected.
    pub async fn connect(&self, failed: &[Endpoint], changes: &mut Changes) -> Connected {
        let failure = |candidate: &Candidate| failed.iter().position(|at| candidate.is_at(at));
        let mut settings = Arc::clone(&changes.borrow_and_update());
        let mut backoff = settings.delays.reconnect.clone();
        loop {
            let mut candidates: Vec<_> = settings.candidates.iter().collect();
            // None is before all others, and the sort keeps the order of what is equal.
            candidates.sort_by_key(|candidate| failure(candidate));
            for candidate in candidates {
                self.state
                    .set(ConnectionState::Connecting(candidate.endpoint.to_string()));
                if let Some(connected) = self.try_one(candidate).await {
                    return connected;
                }
            }
            tokio::select! {
                () = self.context.clock.pause(backoff.next_delay()) => {}
                // An error is impossible: the connector has the sender.
                _ = changes.changed() => {
                    settings = Arc::clone(&changes.borrow_and_update());
                    backoff = settings.delays.reconnect.clone();
                }
            }
        }
    }

    /// Connects to the first candidate that answers in place of the connection to `current`, which goes on
    /// meanwhile. Returns none when that is the best: if it `may_stay`, no candidate before it answers. Otherwise
    /// retries indefinitely. Those at `failed`, which were connected and of no use, are tried when no other one answers.
    ///
    /// # Cancel safety
    /// When the future is dropped nothing new stays connected.
    pub async fn connect_instead_of(
        &self,
        current: &Endpoint,
        may_stay: bool,
        failed: &mut Vec<Endpoint>,
    ) -> Option<Connected> {
        let settings = self.settings.now();
        let mut backoff = settings.delays.reconnect.clone();
        loop {
            for candidate in &settings.candidates {
                if failed.iter().any(|at| candidate.is_at(at)) {
                    continue;
                }
                if !candidate.is_at(current) {
                    if let Some(connected) = self.try_one(candidate).await {
                        return Some(connected);
                    }
                } else if may_stay {
                    return None;
                }
            }
            failed.clear();
            self.context.clock.pause(backoff.next_delay()).await;
        }
    }

    /// Whether there is another candidate than the one at `endpoint`.
    pub fn has_alternative(&self, endpoint: &Endpoint) -> bool {
        let settings = self.settings.now();
        settings
            .candidates
            .iter()
            .any(|candidate| !candidate.is_at(endpoint))
    }

    async fn try_one(&self, candidate: &Candidate) -> Option<Connected> {
        let endpoint = &candidate.endpoint;
        tracing::debug!("connecting to {endpoint}");
        let backoff = self.settings.now().delays.reconnect.clone();
        let context = self.context.clone().with_backoff(backoff);
        match candidate.connect(&context).await {
            Ok(connected) => {
                let place = connected.place();
                match std::mem::take(&mut *self.logged()).is_empty() {
                    true => tracing::info!("connected to {place}"),
                    // Shown where the failures before it were.
                    false => saline_daemon::notice!("connected to {place}"),
                }
                Some(connected)
            }
            Err(error) => {
                let text = format!("no master at {endpoint}: {error}");
                let mut logged = self.logged();
                if logged.len() > MAX_LOGGED {
                    logged.clear();
                }
                // A warning once, not at every attempt: the master may be away for days.
                if logged.insert(text.clone()) {
                    tracing::warn!("{text}; the minion keeps trying");
                } else {
                    tracing::debug!("{text}");
                }
                None
            }
        }
    }

    fn logged(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
