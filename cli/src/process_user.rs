//! Switches the user of this process.

use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Uid, User, initgroups, setgid, setgroups, setuid};

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

/// Switches to the user of this name (`-u`), with its groups. The environment stays. Changes nothing when this
/// process has that user already.
///
/// # Errors
/// One line: there is no such user, or this process may not become it.
pub(crate) fn switch_to(name: &str) -> Result<(), String> {
    let refused = |why: &str| format!("ERROR: cannot switch to user {name} (-u): {why}");
    let user = match User::from_name(name) {
        Ok(Some(user)) => user,
        Ok(None) => return Err(refused("no such user on this machine")),
        Err(error) => return Err(refused(&io::Error::from(error).to_string())),
    };
    if user.uid == Uid::effective() {
        return Ok(());
    }
    if !Uid::effective().is_root() {
        return Err(refused("only root can; run this as that user, or as root"));
    }
    let set = || -> io::Result<()> {
        initgroups(&CString::new(name)?, user.gid)?;
        setgid(user.gid)?;
        Ok(setuid(user.uid)?)
    };
    set().map_err(|error| refused(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_this_process_cannot_become_is_refused() {
        let own = User::from_uid(Uid::effective()).unwrap().unwrap();
        assert_eq!(switch_to(&own.name), Ok(()));
        let unknown = switch_to("no-such-user").unwrap_err();
        assert!(
            unknown.ends_with("no such user on this machine"),
            "{unknown}"
        );
        if !own.uid.is_root() {
            let refused = switch_to("root").unwrap_err();
            assert!(refused.contains("only root can"), "{refused}");
        }
    }
}
