//! Both key stores for async code: their calls block on the disk, so they run where that is allowed.

use std::sync::Arc;

use saline_channel::PublicIdentity;
use saline_messages::{KeyState, MinionId};
use saline_protocol::transport::Context;

use super::{KeyOnDisk, KeyStore, OperatorStore};
use crate::authorize::LOCAL_OPERATOR;

/// The keys cannot be read now, which is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeysUnreadable;

/// Access to the keys of minions and operators without blocking the runtime.
#[derive(Debug, Clone)]
pub struct KeyAccess {
    minions: Arc<KeyStore>,
    operators: Arc<OperatorStore>,
    context: Context,
}

impl KeyAccess {
    /// Creates access to both stores; the blocking calls are tasks of `context`.
    pub fn new(minions: KeyStore, operators: OperatorStore, context: Context) -> Self {
        Self {
            minions: Arc::new(minions),
            operators: Arc::new(operators),
            context,
        }
    }

    /// Runs `act` on the store of minions' keys. Returns none when `act` panicked, which the runtime
    /// logs.
    ///
    /// # Cancel safety
    /// An `act` that has begun is finished when the future is dropped.
    pub async fn with_minions<T: Send + 'static>(
        &self,
        act: impl FnOnce(&KeyStore) -> T + Send + 'static,
    ) -> Option<T> {
        let minions = Arc::clone(&self.minions);
        self.context
            .spawn_blocking(move || act(&minions))
            .await
            .ok()
    }

    /// Whether `identity` is the accepted key of the minion `id` now.
    ///
    /// # Errors
    /// When the disk fails, or this process may open no more files: an accepted key must not look like
    /// another one then.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn is_accepted(
        &self,
        id: &MinionId,
        identity: PublicIdentity,
    ) -> Result<bool, KeysUnreadable> {
        let asked = id.clone();
        let known = self.with_minions(move |keys| keys.lookup(&asked)).await;
        let known = known.ok_or(KeysUnreadable)?.map_err(|error| {
            tracing::error!(%id, %error, "the key store cannot be read");
            KeysUnreadable
        })?;
        Ok(known == Some((KeyState::Accepted, identity.0)))
    }

    /// Returns the accepted key of the API `name`; none when there is no such API.
    ///
    /// # Errors
    /// As [`is_accepted`](Self::is_accepted).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn api(&self, name: &MinionId) -> Result<Option<[u8; 32]>, KeysUnreadable> {
        let asked = name.clone();
        let known = self.with_minions(move |keys| keys.apis().lookup(&asked));
        known.await.ok_or(KeysUnreadable)?.map_err(|error| {
            tracing::error!(api = %name, %error, "the key of an API cannot be read");
            KeysUnreadable
        })
    }

    /// Returns what the disk says now about the accepted keys of these minions.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn keys_on_disk(&self, ids: Vec<MinionId>) -> Vec<(MinionId, KeyOnDisk)> {
        let asked = ids.clone();
        let look = move |keys: &KeyStore| {
            let keys_on_disk = asked.iter().map(|id| keys.key_on_disk(id));
            keys_on_disk.collect::<Vec<_>>()
        };
        // None when the code of the key store panicked, which the runtime logs.
        let found = self.with_minions(look).await.unwrap_or_default();
        let unknown = std::iter::repeat(KeyOnDisk::Unreadable);
        ids.into_iter()
            .zip(found.into_iter().chain(unknown))
            .collect()
    }

    /// Returns the key of the operator `name`; none when there is no such operator.
    ///
    /// # Errors
    /// As [`is_accepted`](Self::is_accepted).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn operator(&self, name: &str) -> Result<Option<[u8; 32]>, KeysUnreadable> {
        if name == LOCAL_OPERATOR {
            return Ok(Some(self.operators.local()));
        }
        let (operators, asked) = (Arc::clone(&self.operators), name.to_owned());
        let found = self
            .context
            .spawn_blocking(move || operators.lookup(&asked));
        found.await.map_err(|_| KeysUnreadable)?.map_err(|error| {
            tracing::error!(operator = %name, %error, "the key of an operator cannot be read");
            KeysUnreadable
        })
    }
}
