//! The file with the token by which the master lets this minion in. It is read at each handshake, and removed when the master
//! has accepted the minion.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use saline_channel::{KeyError, MasterKeys, Token, key_file};
use saline_config::MinionConfig;

/// The file with the token.
#[derive(Debug)]
pub struct TokenFile {
    /// None for a minion without a folder of a configuration, which has no token.
    path: Option<PathBuf>,
    /// What was logged last of the file, so that it is logged once.
    told: Mutex<Option<String>>,
}

impl TokenFile {
    /// Uses the file that the configuration says.
    pub fn of(config: &MinionConfig) -> Self {
        Self {
            path: config.token_file(),
            told: Mutex::default(),
        }
    }

    /// Returns the token in the file; none when there is no file. Blocks on the disk.
    ///
    /// # Errors
    /// A line for the operator, when there is a file that cannot be used.
    pub fn read(&self) -> Result<Option<Token>, String> {
        let Some(file) = self.path.as_deref() else {
            return Ok(None);
        };
        let path = file.display();
        let text = key_file::read_private(file).map_err(|error| match error {
            KeyError::Exposed { mode, .. } => format!(
                "the token in {path} is not used, since others can read it (mode {mode:o}): chmod 600 it; if somebody may have \
                 read it, revoke it on the master (`saline-key --revoke-token`) and put another one there"
            ),
            error => format!("the token is not used: {error}"),
        })?;
        let token = text.map(|text| text.parse()).transpose();
        token.map_err(|error| format!("{path} is not used: {error}"))
    }

    /// Returns the token that was read; none where there was none, or it cannot be used, which is logged once.
    pub fn usable_or_log(&self, read: Result<Option<Token>, String>) -> Option<Token> {
        read.unwrap_or_else(|why| {
            self.tell(why);
            None
        })
    }

    /// Returns where the file is, for the log.
    pub fn display(&self) -> impl std::fmt::Display + '_ {
        self.path.as_deref().unwrap_or(Path::new("")).display()
    }

    /// Logs once that the master that the minion trusts did not get the token, since another one made it.
    pub fn tell_if_not_sent(&self, token: &Token, master: &MasterKeys) {
        let made_by = token.master();
        if master.identity.has_fingerprint(made_by) || master.had_fingerprint(made_by) {
            return;
        }
        let (path, name) = (self.display(), token.name());
        let trusted = master.identity.fingerprint();
        self.tell(format!(
            "the token {name} in {path} was made by another master than the one that this minion trusts, and was not sent: \
             trusted is {trusted}"
        ));
    }

    /// Removes the file, if there is one, since the master has accepted the minion. Blocks on the disk.
    pub fn remove(&self) {
        let Some(file) = &self.path else {
            return;
        };
        let path = file.display();
        match fs::remove_file(file) {
            Ok(()) => tracing::info!("{path} is removed: the master has accepted this minion"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.tell(format!(
                "{path} cannot be removed: {error}; remove it, since the master has accepted this minion and a token is secret"
            )),
        }
    }

    fn tell(&self, line: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() != Some(&line) {
            tracing::warn!("{line}");
            *told = Some(line);
        }
    }
}
