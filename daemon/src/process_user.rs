//! Switches the user of this process, for good.

use std::ffi::CString;
use std::io;

use nix::unistd::{Uid, User, initgroups, setgid, setuid};

/// The reason why this process cannot switch to another user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BecomeError {
    /// This machine has no such user.
    #[error("no such user on this machine")]
    Unknown,
    /// Neither root nor the named user runs this process.
    #[error("only root can switch users: run this as that user, or as root")]
    NotRoot,
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Switches to the user of this name, with its groups. The environment stays. Changes nothing when that user runs this process
/// already. Call it while the process has one thread. The process cannot switch back: with another user the kernel takes all of
/// root's capabilities from it.
///
/// # Errors
/// See [`BecomeError`].
pub fn become_user(name: &str) -> Result<(), BecomeError> {
    let user = User::from_name(name).map_err(io::Error::from)?;
    let user = user.ok_or(BecomeError::Unknown)?;
    if user.uid == Uid::effective() {
        return Ok(());
    }
    if !Uid::effective().is_root() {
        return Err(BecomeError::NotRoot);
    }
    let name = CString::new(name).map_err(io::Error::from)?;
    initgroups(&name, user.gid).map_err(io::Error::from)?;
    setgid(user.gid).map_err(io::Error::from)?;
    setuid(user.uid).map_err(io::Error::from)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_this_process_cannot_become_is_refused() {
        let own = User::from_uid(Uid::effective()).unwrap().unwrap();
        become_user(&own.name).unwrap();
        let unknown = become_user("no-such-user");
        assert!(matches!(unknown, Err(BecomeError::Unknown)), "{unknown:?}");
        if !own.uid.is_root() {
            let refused = become_user("root");
            assert!(matches!(refused, Err(BecomeError::NotRoot)), "{refused:?}");
        }
    }
}
