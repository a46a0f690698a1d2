//! `group`: the groups of the machine.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::user::{self, Names, new_number, no_such};
use crate::accounts::{Group, checked_name};
use crate::change::change;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &ADD, &DELETE, &INFO, &GETENT, &ADDUSER, &DELUSER, &MEMBERS, &CHGID,
];

/// Creates a group. Returns the new group, `{old, new}`, nothing if there is one of this name already.
///
/// gid
///     The number; the next free one by default.
///
/// system
///     Whether the number is one of those for services.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' group.add web gid=1042
#[function(changes)]
fn add(
    job: &JobContext<'_>,
    name: String,
    gid: Option<u64>,
    #[default(false)] system: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    checked_name(&name)?;
    if job.group(&name)?.is_some() {
        return Ok(change("", ""));
    }
    let gid = gid
        .map(|gid| new_number(job, "group", gid, true))
        .transpose()?;
    if test {
        return Ok(change(Value::Null, name));
    }
    let mut words = vec!["groupadd"];
    if let Some(gid) = &gid {
        words.extend(["-g", gid]);
    }
    words.extend(system.then_some("-r"));
    words.extend(["--", &name]);
    job.succeed(&words, "")?;
    Ok(change(Value::Null, known(job, &name)?.to_value()))
}

/// Deletes a group. Returns the group that was there, `{old, new}`, nothing if there is none.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' group.delete web
#[function(changes)]
fn delete(
    job: &JobContext<'_>,
    name: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let Some(group) = job.group(&name)? else {
        return Ok(change("", ""));
    };
    if !test {
        job.succeed(&["groupdel", "--", &name], "")?;
    }
    Ok(change(group.to_value(), Value::Null))
}

/// Returns a group: its number and the members that it lists; an empty mapping if there is none of this name.
///
/// CLI Example:
///
///     saline '*' group.info sudo
#[function]
fn info(job: &JobContext<'_>, name: String) -> Result<Value, Failure> {
    let found = job.group(&name)?;
    Ok(found.map_or_else(|| Value::Map(Vec::new()), |group| group.to_value()))
}

/// Returns all groups as `group.info` does.
///
/// CLI Example:
///
///     saline '*' group.getent
#[function]
fn getent(job: &JobContext<'_>) -> Result<Value, Failure> {
    let groups = Group::all_of(&job.name_service("group", None)?);
    Ok(Value::List(groups.iter().map(Group::to_value).collect()))
}

/// Adds a user to a group. Returns the members, `{old, new}`, nothing if the user is one already.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' group.adduser sudo ann
#[function(changes)]
fn adduser(
    job: &JobContext<'_>,
    name: String,
    username: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let mut members = known(job, &name)?.members;
    if !members.contains(&username) {
        members.push(username.clone());
    }
    let option = ["--add", checked_name(&username)?];
    set_members(job, &name, &option, members, &[username.as_str()], test)
}

/// Removes a user from a group. Returns the members, `{old, new}`, nothing if the user is none of them.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' group.deluser sudo ann
#[function(changes)]
fn deluser(
    job: &JobContext<'_>,
    name: String,
    username: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let mut members = known(job, &name)?.members;
    members.retain(|member| *member != username);
    let option = ["--delete", checked_name(&username)?];
    set_members(job, &name, &option, members, &[], test)
}

/// Puts these members in the place of those that a group has. Returns the members, `{old, new}`.
///
/// members_list
///     A list, or names with commas between them.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' group.members web ann,bob
#[function(changes)]
fn members(
    job: &JobContext<'_>,
    name: String,
    members_list: Names,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let wanted = members_list.joined()?;
    let users: Vec<&str> = wanted
        .split(',')
        .filter(|member| !member.is_empty())
        .collect();
    let members = users.iter().map(|member| (*member).to_owned()).collect();
    let option = ["--members", wanted.as_str()];
    set_members(job, &name, &option, members, &users, test)
}

/// Changes the number of a group; files keep the old one. Returns `{old, new}`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' group.chgid web 1043
#[function(changes)]
fn chgid(
    job: &JobContext<'_>,
    name: String,
    gid: u64,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let old = u64::from(known(job, &name)?.gid);
    if old != gid {
        let number = new_number(job, "group", gid, true)?;
        if !test {
            job.succeed(&["groupmod", "-g", &number, "--", &name], "")?;
        }
    }
    Ok(change(old, gid))
}

/// Runs gpasswd unless the group has these members, and returns how they changed. Each of `users` must exist; a member that is
/// removed need not.
fn set_members(
    job: &JobContext<'_>,
    name: &str,
    option: &[&str],
    mut wanted: Vec<String>,
    users: &[&str],
    test: bool,
) -> Result<Value, Failure> {
    let mut old = known(job, name)?.members;
    old.sort_unstable();
    wanted.sort_unstable();
    if old != wanted {
        for username in users {
            user::known(job, username)?;
        }
        if !test {
            job.succeed(&[&["gpasswd"], option, &["--", name]].concat(), "")?;
        }
    }
    Ok(change(Value::texts(old), Value::texts(wanted)))
}

/// Returns a group that there must be.
fn known(job: &JobContext<'_>, name: &str) -> Result<Group, Failure> {
    job.group(name)?.ok_or_else(|| no_such("group", name))
}
