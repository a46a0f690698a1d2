//! A master's identity and its rotation: an operator orders the next identity, and the master's next start takes it over.
//!
//! The take-over has three steps; after a crash the next start continues with the step that is missing. First the old key
//! signs its successor, and the record is written to the disk. Then the next key replaces the old one. Last the Noise key
//! is removed: the old identity vouched for it, and peers that know it would resume sessions with the old identity.
//! `identity.pub` names the old identity until the third step is done, which is how a start notices that it is missing.

use std::fs;
use std::path::Path;

use super::identity::{FILE, PUBLIC_FILE};
use super::{Identity, KeyError, MasterKeys, NoiseKey, PublicIdentity, Successors, key_file};

/// The name of the file of the next private key.
const NEXT_FILE: &str = "identity.next.key";

/// The name of the file with the records of successors.
const SUCCESSORS_FILE: &str = "identity.successors";

/// The keys with which a master starts.
#[derive(Debug)]
pub struct MasterIdentity {
    /// The identity.
    pub identity: Identity,
    /// The Noise key that it vouches for.
    pub noise: NoiseKey,
    /// The records that lead to the identity from those that the master had before.
    pub successors: Successors,
    /// The identity that this start has replaced.
    pub replaced: Option<PublicIdentity>,
}

impl MasterIdentity {
    /// Reads the keys of a master in `folder`, or creates them. The next identity, if there is one, replaces the present
    /// one.
    ///
    /// # Errors
    /// As [`Identity::load_or_create`] and [`NoiseKey::load_or_create`], and when the next identity cannot be taken over.
    pub fn load_or_create(folder: &Path) -> Result<Self, KeyError> {
        key_file::create_private_folder(folder)?;
        let replaced = take_over_next(folder)?;
        let public_path = folder.join(PUBLIC_FILE);
        let public = MasterKeys::read(&public_path).ok().flatten();
        let present = Identity::read_in(folder)?.map(|identity| identity.public());
        if present.is_some() && present != public.as_ref().map(|public| public.identity) {
            // Before anything names the new identity as the one that vouches for it.
            NoiseKey::remove(folder)?;
        }
        let identity = Identity::load_or_create(folder)?;
        let noise = NoiseKey::load_or_create(folder)?;
        let keys = MasterKeys::of(identity.public(), &noise);
        // Unchanged keys are not written again, so that a master also starts on a full disk.
        if public.as_ref() != Some(&keys) {
            keys.write(&public_path)?;
        }
        Ok(Self {
            successors: Successors::read(&folder.join(SUCCESSORS_FILE))?.only_to(identity.public()),
            identity,
            noise,
            replaced,
        })
    }

    /// Checks whether the keys of a master in `folder` can be read, with those of a rotation that was begun. What is missing
    /// passes if [`load_or_create`](Self::load_or_create) creates it. Changes nothing.
    ///
    /// # Errors
    /// As [`load_or_create`](Self::load_or_create), as far as nothing has to be written to tell.
    pub fn check(folder: &Path) -> Result<(), KeyError> {
        key_file::check_private_folder(folder)?;
        let present = Identity::read_in(folder)?;
        let next = Identity::read_optional(&folder.join(NEXT_FILE))?;
        if next.is_some() && present.is_none() {
            return Err(next_alone(folder));
        }
        NoiseKey::read_private(&folder.join(super::noise_key::FILE))?;
        Successors::read(&folder.join(SUCCESSORS_FILE)).map(drop)
    }

    /// Returns the identity that the master's next start takes over, if one was [prepared](Self::prepare_next).
    ///
    /// # Errors
    /// When the file cannot be read, or holds something else.
    pub fn next(folder: &Path) -> Result<Option<PublicIdentity>, KeyError> {
        let next = Identity::read_optional(&folder.join(NEXT_FILE))?;
        Ok(next.map(|next| next.public()))
    }

    /// Creates the identity that the master's next start takes over, unless there is one.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn prepare_next(folder: &Path) -> Result<PublicIdentity, KeyError> {
        if let Some(next) = Self::next(folder)? {
            return Ok(next);
        }
        key_file::create_private_folder(folder)?;
        let next = Identity::generate()?;
        next.write(&folder.join(NEXT_FILE), 0o600)?;
        key_file::sync_folder(folder)?;
        Ok(next.public())
    }
}

/// Returns the error of a next identity that no present one can sign.
fn next_alone(folder: &Path) -> KeyError {
    KeyError::NextAlone {
        path: folder.join(NEXT_FILE),
    }
}

/// Replaces the present identity with the next one, if there is one. Returns the identity that was replaced.
fn take_over_next(folder: &Path) -> Result<Option<PublicIdentity>, KeyError> {
    let next_path = folder.join(NEXT_FILE);
    let Some(next) = Identity::read_optional(&next_path)? else {
        return Ok(None);
    };
    let identity = Identity::read_in(folder)?.ok_or_else(|| next_alone(folder))?;
    // The same key may be in both files after a copy of the folder was put back over it.
    let is_taken_over = next.public() == identity.public();
    if !is_taken_over {
        let path = folder.join(SUCCESSORS_FILE);
        let successors = Successors::read(&path)?.with(&identity, next.public());
        successors.write(&path)?;
        // The next step removes the old key, and without the record on the disk no peer would follow from it.
        key_file::sync_folder(folder)?;
    }
    let path = folder.join(FILE);
    fs::rename(&next_path, &path).map_err(|source| KeyError::Io {
        what: "write",
        path,
        source,
    })?;
    key_file::sync_folder(folder)?;
    Ok((!is_taken_over).then(|| identity.public()))
}

#[cfg(test)]
mod tests;
