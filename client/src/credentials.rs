//! The local operator's key, and which master it believes.

use std::path::PathBuf;
use std::sync::Arc;

use saline_config::MasterConfig;
use saline_protocol::channel::{Credentials, Identity, MasterKeys, MasterTrust, NoiseKey};
use saline_protocol::message::Role;

use crate::ClientError;

/// Where the keys lie. They are read for every session: a master that was set up anew has others.
#[derive(Debug)]
pub(crate) struct KeyFiles {
    /// The local operator's.
    pub(crate) root_key: PathBuf,
    /// The master's public keys.
    pub(crate) master: PathBuf,
    noise: NoiseKey,
}

impl KeyFiles {
    /// Those of this configuration.
    pub(crate) fn of(config: &MasterConfig) -> Result<Self, ClientError> {
        Ok(Self {
            root_key: config.root_key(),
            master: config.paths.pki_dir.join("identity.pub"),
            noise: NoiseKey::generate().map_err(ClientError::key)?,
        })
    }

    /// Reads them; `endpoint` is where their master would listen.
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
        };
        Ok((credentials, MasterTrust::Pinned(master)))
    }
}
