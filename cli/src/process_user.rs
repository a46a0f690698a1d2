//! Switches the user of this process.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};

/// Switches to the owner of the master's keys if root runs this command, as Salt's commands do: what it writes
/// can then be read by the master, and what that user owns cannot make root do anything. Changes nothing
/// where the folder does not exist, since the master has not been started.
///
/// # Errors
/// When the system refuses.
pub(crate) fn drop_to_owner_of(pki_dir: &Path) -> io::Result<()> {
    let Ok(folder) = std::fs::metadata(pki_dir) else {
        return Ok(());
    };
    let (user, group) = (Uid::from_raw(folder.uid()), Gid::from_raw(folder.gid()));
    if !Uid::effective().is_root() || user.is_root() {
        return Ok(());
    }
    setgroups(&[group])?;
    setgid(group)?;
    Ok(setuid(user)?)
}

/// Switches to the user of this name (`-u`), with its groups.
///
/// # Errors
/// One line: there is no such user, or this process may not become it.
pub(crate) fn switch_to(name: &str) -> Result<(), String> {
    saline_daemon::become_user(name)
        .map_err(|error| format!("ERROR: cannot switch to user {name} (-u): {error}"))
}
