//! Decides which master a program on another machine trusts, a minion or an API: the one whose keys it has pinned, else the first that it meets.

use std::path::PathBuf;

use super::{ChannelError, KeyError, MasterKeys, MasterTrust, Token};

/// The master's pinned keys and the configured fingerprint.
#[derive(Debug)]
pub struct PinnedMaster {
    path: PathBuf,
    finger: Option<String>,
    /// The kind of program, as messages to the operator name it: `minion` or `API`.
    program: &'static str,
    /// The token whose master is trusted where nothing else says which one is, or why it cannot be used.
    token: Result<Option<Token>, String>,
}

/// The reason why no master is trusted, with the operator's remedy.
#[derive(Debug)]
pub struct Distrust(pub String);

impl PinnedMaster {
    /// Uses the keys in the file `path` and the option `master_finger`.
    pub fn new(path: PathBuf, finger: Option<String>) -> Self {
        Self {
            path,
            finger,
            program: "minion",
            token: Ok(None),
        }
    }

    /// Names the program to operators as an API.
    #[must_use]
    pub fn of_api(self) -> Self {
        Self {
            program: "API",
            ..self
        }
    }

    /// Trusts at a first contact no other master than the one that made this token, unless `master_finger` is set. Where there
    /// is a token that cannot be used, which the error explains, none is trusted then: the operator wanted no trust on first use.
    #[must_use]
    pub fn with_token(self, token: Result<Option<Token>, String>) -> Self {
        Self { token, ..self }
    }

    /// Returns the trusted master: the pinned one, or, when the configured fingerprint is another key's, the one with that
    /// which took its place; without a pinned one the one with the configured fingerprint, else the one that made the token,
    /// else the first that answers.
    ///
    /// # Errors
    /// When the pinned keys cannot be read, which is no reason to trust another master, or when the token would say which one is
    /// trusted and cannot be used.
    pub fn trust(&self) -> Result<MasterTrust, Distrust> {
        let pinned =
            MasterKeys::read(&self.path).map_err(|error: KeyError| Distrust(error.to_string()))?;
        let finger = self.finger.clone();
        let Some(known) = pinned else {
            let finger = match (finger, &self.token) {
                (Some(finger), _) => Some(finger),
                (None, Ok(token)) => token.as_ref().map(|token| token.master().to_owned()),
                (None, Err(why)) => {
                    let program = self.program;
                    return Err(Distrust(format!(
                        "{why}. The {program} trusts no master until the token can be used, master_finger is set, or the file is removed, \
                         after which it trusts the first master that it meets"
                    )));
                }
            };
            return Ok(MasterTrust::FirstUse { finger });
        };
        Ok(match finger {
            // The master's identity may have been rotated since, and the operator may have configured the new one already.
            Some(finger)
                if !known.identity.has_fingerprint(&finger) && !known.had_fingerprint(&finger) =>
            {
                MasterTrust::Successor { known, finger }
            }
            _ => MasterTrust::Pinned(known),
        })
    }

    /// Pins the keys of the master that answered, unless they are the pinned ones.
    pub fn pin(&self, trust: &MasterTrust, master: &MasterKeys) {
        let known = match trust {
            MasterTrust::Pinned(known) | MasterTrust::Successor { known, .. } => Some(known),
            MasterTrust::FirstUse { .. } => None,
        };
        if known == Some(master) {
            return;
        }
        let finger = master.identity.fingerprint();
        let path = self.path.display();
        match (master.write(&self.path), known) {
            (Ok(()), None) => tracing::info!(
                "the master's key, fingerprint {finger}, is trusted from now on and stored in {path}"
            ),
            (Ok(()), Some(known)) if known.identity != master.identity => tracing::warn!(
                "the master has replaced its key: fingerprint {finger} is trusted from now on and stored in {path}, in the \
                 place of {}, which signed it",
                known.identity.fingerprint()
            ),
            (Ok(()), _) => tracing::debug!("the master's session key was stored"),
            (Err(error), _) => tracing::error!(
                "the master's key, fingerprint {finger}, could not be stored: {error}"
            ),
        }
    }

    /// Returns a line for the operator when `master_finger` names a key that the master has replaced.
    pub fn outdated_finger(&self, master: &MasterKeys) -> Option<String> {
        let finger = self.finger.as_ref()?;
        let is_outdated = !master.identity.has_fingerprint(finger);
        is_outdated.then(|| {
            format!(
                "master_finger is {finger}, a key that the master has replaced: set it to {}",
                master.identity.fingerprint()
            )
        })
    }

    /// Explains what to do about the trusted master when it shows a Noise key that it has replaced.
    pub fn explain_old_noise_key(&self, error: &ChannelError) -> Distrust {
        Distrust(format!(
            "{error}. Nothing was sent to it. If the master was really restored from an old copy, remove noise.key in the \
             master's pki_dir, leave noise.pub there, and restart saline-master; if noise.pub is old too, remove {} and the \
             {} will trust the master again",
            self.path.display(),
            self.program
        ))
    }

    /// Explains what to do about a master with another key than the trusted one.
    pub fn explain_other_key(&self, trust: &MasterTrust, found: &str) -> Distrust {
        let (path, program) = (self.path.display(), self.program);
        let known = match trust {
            MasterTrust::Successor { known, finger } => {
                return Distrust(format!(
                    "master_finger is {finger}, but the key in {path} has the fingerprint {}, and the master that answers \
                     has {found}, which did not follow from it. Nothing was sent to it. Correct master_finger or remove the \
                     file",
                    known.identity.fingerprint()
                ));
            }
            MasterTrust::Pinned(known) => Some(known),
            MasterTrust::FirstUse { .. } => None,
        };
        let expected = trust.fingerprint().unwrap_or_default();
        if known.is_some_and(|known| known.had_fingerprint(found)) {
            return Distrust(format!(
                "the master that answers has a key that the trusted one has replaced: its fingerprint is {found}, trusted is \
                 {expected}. Nothing was sent to it. If the master was restored from an old copy, put a newer copy of its \
                 pki_dir back, or remove {path} and the {program} will trust the old key again; otherwise somebody else has \
                 that key"
            ));
        }
        let remedy = match (known, &self.finger) {
            (Some(_), None) => format!("remove {path}"),
            (Some(_), Some(_)) => {
                format!("remove {path} and correct master_finger in the {program}'s configuration")
            }
            (None, None) => "remove the file of enrolment_token_file, or put a token of that master into it (`saline-key \
                             --make-token` on the master)"
                .to_owned(),
            // There is no file: the configuration alone says whom the minion trusts.
            (None, Some(_)) => format!("correct master_finger in the {program}'s configuration"),
        };
        Distrust(format!(
            "the master that answers has another key than the one that this {program} trusts: its \
             fingerprint is {found}, trusted is {expected}. Nothing was sent to it. If {found} is the \
             key of your master (`saline-key -F` on the master shows it), {remedy}, and the {program} will trust it"
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::Identity;

    use super::*;

    #[test]
    fn the_remedy_names_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.pub");
        let public = || Identity::generate().unwrap().public();
        let (trusted, finger) = (public(), public().fingerprint());
        let explained = |pinned: bool, finger: Option<String>| {
            if pinned {
                MasterKeys::identity_alone(trusted).write(&path).unwrap();
            }
            let master = PinnedMaster::new(path.clone(), finger);
            let trust = master.trust().unwrap();
            let Distrust(line) = master.explain_other_key(&trust, "aa:bb");
            (
                line.contains("remove /"),
                line.contains("correct master_finger in the minion's configuration"),
            )
        };
        assert_eq!(explained(false, Some(finger)), (false, true));
        assert_eq!(explained(true, None), (true, false));
        assert_eq!(explained(true, Some(trusted.fingerprint())), (true, true));
    }
}
