//! What the configuration decides about new keys.

use std::path::Path;
use std::sync::Arc;

use saline_config::MasterConfig;
use saline_messages::MinionId;

use super::id_file::{IdFile, REJECTING};

/// The configured treatment of unknown keys.
#[derive(Debug, Clone)]
pub struct KeyPolicy {
    /// Accept the keys of unknown ids, and pending keys when they are presented again.
    pub auto_accept: bool,
    /// `autosign_file`: the ids whose keys are accepted in the same way.
    pub autosign: Option<Arc<IdFile>>,
    /// `autoreject_file`: the ids whose keys are rejected, before anything accepts them.
    pub autoreject: Option<Arc<IdFile>>,
    /// Accept every key of every id. For emergencies.
    pub open_mode: bool,
    /// The largest number of pending keys.
    pub max_pending: usize,
}

/// What the configuration decides about a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// This option accepts it.
    Accept(&'static str),
    /// This option rejects it.
    Reject(&'static str),
    /// An operator decides, or a token that the minion brings.
    Nothing,
    /// An operator decides, and nothing else: `autoreject_file` cannot be read.
    OperatorAlone,
}

impl KeyPolicy {
    /// Reads the options. The log says what is wrong with a list of ids.
    pub fn of(config: &MasterConfig) -> Self {
        Self {
            auto_accept: config.auto_accept,
            autosign: id_file("autosign_file", config.autosign_file.as_deref()),
            autoreject: id_file(REJECTING, config.autoreject_file.as_deref()),
            open_mode: config.open_mode,
            max_pending: config.max_pending_keys,
        }
    }

    /// Decides about a new key of this id. A list that cannot be read accepts nobody, and while `autoreject_file` cannot be
    /// read nothing accepts a key. Blocks on the disk.
    pub fn decide(&self, id: &MinionId) -> Decided {
        match self.autoreject.as_ref().map(|file| file.names(id)) {
            Some(Ok(true)) => return Decided::Reject("autoreject_file"),
            Some(Err(_)) => return Decided::OperatorAlone,
            Some(Ok(false)) | None => {}
        }
        if self.auto_accept {
            return Decided::Accept("auto_accept");
        }
        match self.autosign.as_ref().map(|file| file.names(id)) {
            Some(Ok(true)) => Decided::Accept("autosign_file"),
            Some(Ok(false) | Err(_)) | None => Decided::Nothing,
        }
    }
}

fn id_file(option: &'static str, path: Option<&Path>) -> Option<Arc<IdFile>> {
    path.map(|path| {
        let file = IdFile::new(option, path);
        // The log says what is wrong.
        let _ = file.read();
        Arc::new(file)
    })
}
