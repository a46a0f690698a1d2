//! The key store without a running master.

use saline_channel::{Identity, KeyError};
use saline_config::MasterConfig;
use saline_daemon::{InstanceLock, LockError};
use saline_messages::{KeyReply, KeyRequest, OrderWarning};
use saline_protocol::transport::Clock;

use super::{KeyStore, audited};

/// Carries out a request while no master runs. As Salt's tool does, it creates the master's own key
/// if there is none yet. Blocks on the disk.
///
/// # Errors
/// A line for the operator: a master runs (ask it), or the disk fails.
pub fn offline(config: &MasterConfig, request: &KeyRequest) -> Result<KeyReply, String> {
    let _lock = InstanceLock::take(&config.lock_file()).map_err(|error| match error {
        LockError::Held { .. } => format!("a master is running, and its keys are its own: {error}"),
        other => other.to_string(),
    })?;
    let line = |error: KeyError| error.to_string();
    let master = Identity::load_or_create(&config.paths.pki_dir).map_err(line)?;
    let store = KeyStore::open(&config.paths.pki_dir, Clock).map_err(line)?;
    let noted = audited::note_offline(config, request);
    let applied = store.apply(request);
    match applied.error {
        Some(error) => Err(line(error)),
        None => Ok(KeyReply {
            keys: applied.keys,
            master: master.public().0,
            next_master: applied.next_master,
            // Only a running master sees minions.
            duplicates: Vec::new(),
            missing: Vec::new(),
            apis: applied.apis,
            warnings: noted
                .err()
                .map(OrderWarning::NotAudited)
                .into_iter()
                .collect(),
        }),
    }
}
