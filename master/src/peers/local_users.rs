//! The users of this machine who come over the access socket, by the system's user database.

use std::ffi::CString;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use saline_config::{AccessRules, Subject};

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
    let groups = groups_of(&user)?;
    Ok(Some(LocalUser {
        uid,
        name: user.name,
        groups,
    }))
}

/// Returns the names of the groups of the user with this name; none if the system knows no such user. Blocks as [`look_up`].
///
/// # Errors
/// When the system cannot be asked.
pub(crate) fn groups_of_name(name: &str) -> Result<Vec<String>, nix::Error> {
    match User::from_name(name)? {
        Some(user) => groups_of(&user),
        None => Ok(Vec::new()),
    }
}

fn groups_of(user: &User) -> Result<Vec<String>, nix::Error> {
    let name = CString::new(user.name.as_str()).map_err(|_| nix::Error::EINVAL)?;
    let mut groups = Vec::new();
    for gid in getgrouplist(&name, user.gid)? {
        // A group without a name can be in no rule.
        if let Some(group) = named(gid)? {
            groups.push(group);
        }
    }
    Ok(groups)
}

/// Returns a line for each user and group in the rules that the system does not know. Blocks as [`look_up`].
fn unknown(rules: &AccessRules) -> Vec<String> {
    let line = |(subject, _): &(Subject, _)| {
        let (found, kind, name) = match subject {
            Subject::Name(name) => (
                User::from_name(name).map(|user| user.is_some()),
                "user",
                name,
            ),
            Subject::Group(name) => (
                Group::from_name(name).map(|group| group.is_some()),
                "group",
                name,
            ),
            Subject::Everybody => return None,
        };
        // A directory service that does not answer now says nothing about the name.
        (found == Ok(false)).then(|| {
            format!(
                "publisher_acl names the {kind} {name:?}, which this machine does not know: correct the name, or create \
                 the {kind}"
            )
        })
    };
    rules.subjects.iter().filter_map(line).collect()
}

/// Logs a warning for each user and group in the rules that the system does not know. Blocks as [`look_up`].
pub(crate) fn warn_of_unknown(rules: &AccessRules) {
    for line in unknown(rules) {
        tracing::warn!("{line}");
    }
}

fn named(gid: Gid) -> Result<Option<String>, nix::Error> {
    Ok(Group::from_gid(gid)?.map(|group| group.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_users_and_groups_are_told() {
        let subjects = [
            Subject::Name("root".to_owned()),
            Subject::Name("frdd".to_owned()),
            Subject::Group("root".to_owned()),
            Subject::Group("opps".to_owned()),
            Subject::Everybody,
        ];
        let rules = AccessRules {
            subjects: subjects.map(|subject| (subject, Vec::new())).into(),
        };
        let [user, group] = &unknown(&rules)[..] else {
            panic!("{:?}", unknown(&rules));
        };
        assert!(user.contains(r#"the user "frdd""#), "{user}");
        assert!(group.contains(r#"the group "opps""#), "{group}");
    }

    #[test]
    fn root_is_known_with_its_group_and_a_number_without_a_user_is_nobody() {
        let root = look_up(0).unwrap().unwrap();
        assert_eq!((root.uid, root.name.as_str()), (0, "root"));
        assert!(root.groups.contains(&"root".to_owned()), "{root:?}");
        assert_eq!(look_up(u32::MAX - 7).unwrap(), None);
    }
}
