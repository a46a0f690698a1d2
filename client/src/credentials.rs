//! The keys of a session: those of the local operator, or fresh ones of a user whom the master knows by other means.
//! No session is made with a key of an operator in `pki_dir/operators`: only programs of one's own, which speak the
//! protocol themselves, can use such a key today.

use std::path::PathBuf;
use std::sync::Arc;

use saline_channel::{Credentials, Identity, MasterKeys, MasterTrust, NoiseKey};
use saline_config::MasterConfig;
use saline_messages::{ProtocolVersions, Role};

use crate::ClientError;

/// The keys that a program shows, and those that it expects of the master.
#[derive(Debug)]
pub(crate) enum SessionKeys {
    /// Those of the local operator.
    Files(KeyFiles),
    /// Fresh ones, for the access socket: the master asks the system who the user is. That the master is the right one
    /// follows from the path of the socket, in a folder that only its user can change.
    Fresh(Credentials),
}

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

impl SessionKeys {
    /// Makes fresh keys.
    pub(crate) fn fresh() -> Result<Self, ClientError> {
        Ok(Self::Fresh(Credentials {
            role: Role::Operator,
            // No name: the master does not read one.
            id: "local-user".to_owned(),
            identity: Arc::new(Identity::generate().map_err(ClientError::key)?),
            noise: NoiseKey::generate().map_err(ClientError::key)?,
            versions: ProtocolVersions::OURS,
        }))
    }

    /// Returns the keys for a session; `endpoint` is the master's, for errors.
    pub(crate) fn read(&self, endpoint: &str) -> Result<(Credentials, MasterTrust), ClientError> {
        match self {
            Self::Files(files) => files.read(endpoint),
            Self::Fresh(credentials) => {
                Ok((credentials.clone(), MasterTrust::FirstUse { finger: None }))
            }
        }
    }

    /// Returns the file with the keys that are expected of the master; none if they are not known.
    pub(crate) fn masters_file(&self) -> Option<PathBuf> {
        match self {
            Self::Files(files) => Some(files.master.clone()),
            Self::Fresh(_) => None,
        }
    }
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
