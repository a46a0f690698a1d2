//! Decides which master the minion trusts: the one whose keys it has pinned, else the first that it meets.

use std::path::PathBuf;

use saline_channel::{ChannelError, MasterKeys, MasterTrust};

/// The master's pinned keys and the configured fingerprint.
#[derive(Debug)]
pub struct PinnedMaster {
    path: PathBuf,
    finger: Option<String>,
}

/// The reason why no master is trusted, with the operator's remedy.
#[derive(Debug)]
pub struct Distrust(pub String);

impl PinnedMaster {
    /// Uses the keys in the file `path` and the option `master_finger`.
    pub fn new(path: PathBuf, finger: Option<String>) -> Self {
        Self { path, finger }
    }

    /// Returns the trusted master: the pinned one, else the one with the configured fingerprint, else
    /// the first that answers.
    ///
    /// # Errors
    /// When the pinned keys cannot be read, which is no reason to trust another master, or do not
    /// have the configured fingerprint.
    pub fn trust(&self) -> Result<MasterTrust, Distrust> {
        let pinned = MasterKeys::read(&self.path).map_err(|error| Distrust(error.to_string()))?;
        let finger = self.finger.clone();
        let Some(keys) = pinned else {
            return Ok(MasterTrust::FirstUse { finger });
        };
        match finger {
            Some(finger) if !keys.identity.has_fingerprint(&finger) => Err(Distrust(format!(
                "master_finger is {finger}, but the key in {} has the fingerprint {}: correct \
                 master_finger or remove the file",
                self.path.display(),
                keys.identity.fingerprint()
            ))),
            _ => Ok(MasterTrust::Pinned(keys)),
        }
    }

    /// Pins the keys of the master that answered, unless they are the pinned ones.
    pub fn pin(&self, trust: &MasterTrust, master: &MasterKeys) {
        let known = match trust {
            MasterTrust::Pinned(known) => Some(known),
            MasterTrust::FirstUse { .. } => None,
        };
        if known == Some(master) {
            return;
        }
        let finger = master.identity.fingerprint();
        match master.write(&self.path) {
            Ok(()) if known.is_none() => tracing::info!(
                "the master's key, fingerprint {finger}, is trusted from now on and stored in {}",
                self.path.display()
            ),
            Ok(()) => tracing::debug!("the master's session key was stored"),
            Err(error) => tracing::error!(
                "the master's key, fingerprint {finger}, could not be stored: {error}"
            ),
        }
    }

    /// Explains what to do about the trusted master when it shows a Noise key that it has replaced.
    pub fn explain_old_noise_key(&self, error: &ChannelError) -> Distrust {
        Distrust(format!(
            "{error}. Nothing was sent to it. If the master was really restored from an old copy, remove noise.key in the \
             master's pki_dir, leave noise.pub there, and restart saline-master; if noise.pub is old too, remove {} and the \
             minion will trust the master again",
            self.path.display()
        ))
    }

    /// Explains what to do about a master with another key than the trusted one.
    pub fn explain_other_key(&self, expected: &str, found: &str) -> Distrust {
        let finger = match &self.finger {
            Some(_) => " and correct master_finger in the minion's configuration",
            None => "",
        };
        Distrust(format!(
            "the master that answers has another key than the one that this minion trusts: its \
             fingerprint is {found}, trusted is {expected}. Nothing was sent to it. If the master's \
             key was really changed (`saline-key -F` on the master shows it), remove {}{finger}, and \
             the minion will trust the new one",
            self.path.display()
        ))
    }
}
