//! The configuration of an API: its own file `api`, or, where there is none, the file of the master on this machine.

use std::path::PathBuf;

use saline_client::{Client, ClientError};
use saline_config::{
    ApiConfig, ChangedOption, ConfigError, Loaded, Logging, MasterConfig, RestCherrypyConfig,
};
use saline_daemon::{Arguments, Reloaded};
use saline_protocol::transport::Registry;

/// The configuration of an API.
#[derive(Debug, Clone)]
pub(crate) enum Configuration {
    /// That of the master on this machine, whose key lets the API in.
    OfMaster(Box<Loaded<MasterConfig>>),
    /// Its own: the master is on another host, and lets the key of the API in.
    Own(Box<Loaded<ApiConfig>>),
}

impl Configuration {
    /// Reads the configuration, over which the arguments of the command line go. The log file in a master's file is the
    /// master's: beside it the API writes to the standard error output.
    ///
    /// # Errors
    /// When a file cannot be read, or is wrong.
    pub(crate) fn load(registry: &Registry, arguments: &Arguments) -> Result<Self, ConfigError> {
        let schemes: Vec<&str> = registry.schemes().collect();
        let folder = &arguments.config_dir;
        if ApiConfig::file(folder).exists() {
            let mut loaded = ApiConfig::load(folder, &schemes)?;
            loaded.check_daemon(registry)?;
            arguments.override_logging(&mut loaded.config.logging);
            return Ok(Self::Own(Box::new(loaded)));
        }
        let mut loaded = MasterConfig::load(folder, &schemes)?;
        loaded.config.logging.file = None;
        arguments.override_logging(&mut loaded.config.logging);
        Ok(Self::OfMaster(Box::new(loaded)))
    }

    /// Returns the section about the listener.
    pub(crate) fn listener(&self) -> Option<&RestCherrypyConfig> {
        match self {
            Self::OfMaster(loaded) => loaded.config.rest_cherrypy.as_ref(),
            Self::Own(loaded) => loaded.config.rest_cherrypy.as_ref(),
        }
    }

    /// Returns the folder of the API's lock and of the socket for its health.
    pub(crate) fn folder(&self) -> PathBuf {
        match self {
            Self::OfMaster(loaded) => loaded.config.paths.sock_dir.join("api"),
            Self::Own(loaded) => loaded.config.paths.sock_dir.clone(),
        }
    }

    /// Returns the user that the API switches to: the one that the master on this machine runs as. With a file of its own it runs
    /// as whoever starts it.
    pub(crate) fn user(&self) -> Option<&str> {
        match self {
            Self::OfMaster(loaded) => loaded.config.user.as_deref(),
            Self::Own(_) => None,
        }
    }

    /// Connects to the master.
    ///
    /// # Errors
    /// As [`Client::connect`] and [`Client::connect_to`].
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub(crate) async fn connect(&self, registry: &Registry) -> Result<Client, ClientError> {
        match self {
            Self::OfMaster(loaded) => Client::connect(&loaded.config, registry).await,
            Self::Own(loaded) => Client::connect_to(&loaded.config, registry).await,
        }
    }
}

impl Reloaded for Configuration {
    fn changed_since(&self, before: &Self) -> Vec<ChangedOption> {
        match (self, before) {
            (Self::OfMaster(new), Self::OfMaster(old)) => new.changed_since(old),
            (Self::Own(new), Self::Own(old)) => new.changed_since(old),
            // Another file took its place, which takes a restart to matter.
            _ => Vec::new(),
        }
    }

    fn logging(&self) -> &Logging {
        match self {
            Self::OfMaster(loaded) => &loaded.config.logging,
            Self::Own(loaded) => &loaded.config.logging,
        }
    }

    fn warnings(&self) -> &[String] {
        match self {
            Self::OfMaster(loaded) => &loaded.warnings,
            Self::Own(loaded) => &loaded.warnings,
        }
    }
}
