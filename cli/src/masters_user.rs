//! Gives up root's privileges for those of the master's user.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};

/// Goes on as the owner of the master's keys if root runs this command, as Salt's commands do: what it writes
/// can then be read by the master, and what that user owns cannot make root do anything. Changes nothing
/// where the folder does not exist, since the master has not been started.
///
/// # Errors
/// When the system refuses.
pub(crate) fn drop_privileges(pki_dir: &Path) -> io::Result<()> {
    let Ok(folder) = std::fs::metadata(pki_dir) else {
        return Ok(());
    };
    let (user, group) = (Uid::from_raw(folder.uid()), Gid::from_raw(folder.gid()));
    if !Uid::effective().is_root() || user.is_root() {
        return Ok(());
    }
    setgroups(&[group])?;
    setgid(group)?;
    setuid(user)?;
    Ok(())
}
