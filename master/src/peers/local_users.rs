//! The users of this machine who come over the access socket, by the system's user database.

use std::ffi::CString;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use crate::authorize::LocalUser;

/// Returns the user with this number and the names of its groups; none if the system knows no such user. Blocks, since
/// the system may ask a directory service.
///
/// The groups are those of the user and not those of its process, which may have taken others (`newgrp`, a program with
/// a set-group-id bit).
///
/// # Errors
/// When the system cannot be asked.
pub(super) fn look_up(uid: u32) -> Result<Option<LocalUser>, nix::Error> {
    let Some(user) = User::from_uid(Uid::from_raw(uid))? else {
        return Ok(None);
    };
    let name = CString::new(user.name.as_str()).map_err(|_| nix::Error::EINVAL)?;
    let mut groups = Vec::new();
    for gid in getgrouplist(&name, user.gid)? {
        // A group without a name can be in no rule.
        if let Some(group) = named(gid)? {
            groups.push(group);
        }
    }
    Ok(Some(LocalUser {
        uid,
        name: user.name,
        groups,
    }))
}

fn named(gid: Gid) -> Result<Option<String>, nix::Error> {
    Ok(Group::from_gid(gid)?.map(|group| group.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_with_its_group_and_a_number_without_a_user_is_nobody() {
        let root = look_up(0).unwrap().unwrap();
        assert_eq!((root.uid, root.name.as_str()), (0, "root"));
        assert!(root.groups.contains(&"root".to_owned()), "{root:?}");
        assert_eq!(look_up(u32::MAX - 7).unwrap(), None);
    }
}
