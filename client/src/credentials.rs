//! The keys of a session: those of the local operator, those of an API on a host of its own, or fresh ones of a user whom the
//! master knows by other means.
//! No session is made with a key of an operator in `pki_dir/operators`: only programs of one's own, which speak the
//! protocol themselves, can use such a key today.

use std::path::PathBuf;
use std::sync::Arc;

use saline_channel::{Credentials, Identity, MasterKeys, MasterTrust, NoiseKey, PinnedMaster};
use saline_config::{ApiConfig, MasterConfig};
use saline_messages::{MinionId, ProtocolVersions, Role};

use crate::ClientError;

/// The keys that a program shows, and those that it expects of the master.
#[derive(Debug)]
pub(crate) enum SessionKeys {
    /// Those of the local operator.
    Files(KeyFiles),
    /// Fresh ones, for the access socket: the master asks the system who the user is. That the master is the right one
    /// follows from the path of the socket, in a folder that only its user can change.
    Fresh(Credentials),
    /// Those of an API on a host of its own.
    Api(ApiKeys),
}

/// The keys of an API on a host of its own, and the master that it trusts.
#[derive(Debug)]
pub(crate) struct ApiKeys {
    pub(crate) credentials: Credentials,
    pub(crate) pinned: PinnedMaster,
    /// The file with the keys that are expected of the master.
    master: PathBuf,
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
            Self::Api(api) => Ok((api.credentials.clone(), api.pinned.trust()?)),
        }
    }

    /// Returns the file with the keys that are expected of the master; none if they are not known.
    pub(crate) fn masters_file(&self) -> Option<PathBuf> {
        match self {
            Self::Files(files) => Some(files.master.clone()),
            Self::Fresh(_) => None,
            Self::Api(api) => Some(api.master.clone()),
        }
    }
}

impl ApiKeys {
    /// Reads the keys in `pki_dir`, or makes them (0600).
    ///
    /// # Errors
    /// `NoApiName` when the configuration names no id and the host's name is none; others when the keys cannot be read or
    /// written.
    pub(crate) fn of(config: &ApiConfig) -> Result<Self, ClientError> {
        let name = match &config.id {
            Some(id) => id.clone(),
            None => {
                let host = rustix::system::uname()
                    .nodename()
                    .to_string_lossy()
                    .into_owned();
                MinionId::parse(&host).map_err(|_| ClientError::NoApiName { host })?
            }
        };
        let folder = &config.paths.pki_dir;
        let master = config.master_identity();
        let pinned = PinnedMaster::new(master.clone(), config.master_finger.clone());
        Ok(Self {
            credentials: Credentials {
                role: Role::Api,
                id: name.to_string(),
                // In this order: a new identity removes the Noise key of an old one.
                identity: Arc::new(Identity::load_or_create(folder).map_err(ClientError::Key)?),
                noise: NoiseKey::load_or_create(folder).map_err(ClientError::Key)?,
                versions: ProtocolVersions::OURS,
            },
            pinned: pinned.of_api(),
            master,
        })
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
