//! `key`: the fingerprints of the keys of the minion and of its master.

use saline_channel::{MasterKeys, PublicIdentity};
use saline_functions::{Failure, function};

use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&FINGER, &FINGER_MASTER];

/// Returns the fingerprint of the minion's key, as `saline-key -F` shows it on the master; an empty text before the minion has
/// a key.
///
/// hash_type
///     `sha256`; there is no other.
///
/// CLI Example:
///
///     saline '*' key.finger
///     saline-call --local key.finger
#[function(in_minion)]
fn finger(job: &JobContext<'_>, #[default("sha256")] hash_type: String) -> Result<String, Failure> {
    check(&hash_type)?;
    let path = job.host.pki_dir.join("identity.pub");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(unreadable(&path, &error)),
    };
    let key = PublicIdentity::from_pem(&text).map_err(|error| unreadable(&path, &error))?;
    Ok(key.fingerprint())
}

/// Returns the fingerprint of the master that the minion trusts, as `saline-key -F master` prints it there; an empty text before
/// the minion has met a master.
///
/// hash_type
///     `sha256`; there is no other.
///
/// CLI Example:
///
///     saline '*' key.finger_master
#[function(in_minion)]
fn finger_master(
    job: &JobContext<'_>,
    #[default("sha256")] hash_type: String,
) -> Result<String, Failure> {
    check(&hash_type)?;
    let path = job.host.pki_dir.join("master.pub");
    let keys = MasterKeys::read(&path).map_err(|error| unreadable(&path, &error))?;
    Ok(keys.map_or_else(String::new, |keys| keys.identity.fingerprint()))
}

fn check(hash_type: &str) -> Result<(), Failure> {
    match hash_type {
        "sha256" => Ok(()),
        other => Err(Failure::Invocation(format!(
            "hash_type: fingerprints are made with sha256, not with {other:?}"
        ))),
    }
}

fn unreadable(path: &std::path::Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Execution(format!("cannot read {}: {error}", path.display()))
}
