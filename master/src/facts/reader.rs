//! Reads which keys are accepted, and what is known of the minions that have them.

use std::sync::Arc;

use saline_messages::MinionId;

use super::trusted::Trusted;
use crate::grains::GrainsTable;
use crate::keys::{KeyAccess, KeyOnDisk, KeyStore};
use crate::settings::LiveSettings;

/// Reads what is known of minions whose keys are accepted.
#[derive(Debug, Clone)]
pub(crate) struct FactsReader {
    pub(crate) keys: KeyAccess,
    pub(crate) grains: Arc<GrainsTable>,
    pub(crate) settings: LiveSettings,
}

/// The reason why it is not known whose keys are accepted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FactsError(pub(crate) String);

impl FactsReader {
    /// Returns the ids whose keys are accepted, sorted.
    ///
    /// # Errors
    /// When the keys cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub(crate) async fn accepted(&self) -> Result<Arc<Vec<MinionId>>, FactsError> {
        match self.keys.with_minions(KeyStore::accepted_ids).await {
            Some(Ok(ids)) => Ok(ids),
            Some(Err(error)) => Err(FactsError(error.to_string())),
            None => Err(FactsError("the key store failed".to_owned())),
        }
    }

    /// Returns what root says of one minion; none if its key is not accepted now.
    ///
    /// # Errors
    /// When its key cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub(crate) async fn trusted(&self, id: &MinionId) -> Result<Option<Trusted>, FactsError> {
        let key = self.keys.keys_on_disk(vec![id.clone()]).await.pop();
        match key {
            Some((_, KeyOnDisk::Accepted(_))) => {}
            Some((_, KeyOnDisk::NotAccepted)) => return Ok(None),
            Some((_, KeyOnDisk::Unreadable)) | None => {
                let why = format!("the key of minion {id} cannot be read");
                return Err(FactsError(why));
            }
        }
        let root = self.settings.now().root_facts;
        let reported = self.grains.of(std::slice::from_ref(id)).pop().flatten();
        Ok(Some(Trusted::of(id, reported, &root)))
    }
}
