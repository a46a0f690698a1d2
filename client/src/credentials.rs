//! The local operator's key, and the keys of the trusted master.

use std::path::PathBuf;
use std::sync::Arc;

use saline_channel::{Credentials, Identity, MasterKeys, MasterTrust, NoiseKey};
use saline_config::MasterConfig;
use saline_messages::{ProtocolVersions, Role};

use crate::ClientError;

/// The paths of the key files. They are read for every session, since a reinstalled master has new
/// keys.
#[derive(Debug)]
pub(crate) struct KeyFiles {
    /// The local operator's key.
    pub(crate) root_key: PathBuf,
    /// The master's public keys.
    pub(crate) master: PathBuf,
    noise: NoiseKey,
}

impl KeyFiles {
    /// Returns the paths in this configuration.
    pub(crate) fn of(config: &MasterConfig) -> Result<Self, ClientError> {
        Ok(Self {
            root_key: config.root_key(),
            master: config.paths.pki_dir.join("identity.pub"),
            noise: NoiseKey::generate().map_err(ClientError::key)?,
        })
    }

    /// Reads the key files; `endpoint` is the master's, for errors.
    pub(crate) fn read(&self, endpoint: &str) -> Result<(Credentials, MasterTrust), ClientError> {
        let identity = Identity::read(&self.root_key)
            .map_err(|error| ClientError::masters_key(error, endpoint))?;
        let master = MasterKeys::read(&self.master)
            .map_err(ClientError::key)?
            .ok_or_else(|| ClientError::never_started(endpoint, &self.master))?;
        let credentials = Credentials {
            role: Role::Operator,
            id: "root".to_owned(),
            identity: Arc::new(identity),
            noise: self.noise.clone(),
            versions: ProtocolVersions::OURS,
        };
        Ok((credentials, MasterTrust::Pinned(master)))
    }
}
