//! Functions about the owner and the mode of a file.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::unistd;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid, chownat, fstat, openat};
use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};

use super::answer::Answer;
use super::path::{AbsolutePath, failed};
use super::place::Place;
use crate::JobContext;

/// The number of a user, given by name or as a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct User(pub u32);

/// The number of a group, given by name or as a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group(pub u32);

/// Returns the number of an account that is given by name or as a number. A name may consist of digits, so it is looked
/// up first. The number of all ones stands for no account.
fn number(
    name: &str,
    look_up: impl FnOnce(&str) -> nix::Result<Option<u32>>,
) -> Result<u32, String> {
    match look_up(name) {
        Ok(Some(number)) => Ok(number),
        Ok(None) => match name.parse() {
            Ok(number) if number != u32::MAX => Ok(number),
            _ => Err("that this machine has".to_owned()),
        },
        Err(error) => Err(format!("that can be looked up ({error})")),
    }
}

impl FromValue for User {
    const TAKES: &'static str = "the name or the number of a user";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let name = String::from_value(value)?;
        let look_up = |name: &str| Ok(unistd::User::from_name(name)?.map(|user| user.uid.as_raw()));
        number(&name, look_up)
            .map(Self)
            .map_err(|why| Mismatch::new(format!("a user {why}"), &name.into()))
    }
}

impl FromValue for Group {
    const TAKES: &'static str = "the name or the number of a group";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let name = String::from_value(value)?;
        let look_up =
            |name: &str| Ok(unistd::Group::from_name(name)?.map(|group| group.gid.as_raw()));
        number(&name, look_up)
            .map(Self)
            .map_err(|why| Mismatch::new(format!("a group {why}"), &name.into()))
    }
}

/// Returns the name of a user, or the number as a text where it has none.
pub(super) fn user_name(uid: u32) -> String {
    let found = unistd::User::from_uid(uid.into()).ok().flatten();
    found.map_or_else(|| uid.to_string(), |user| user.name)
}

/// Returns the name of a group, or the number as a text where it has none.
pub(super) fn group_name(gid: u32) -> String {
    let found = unistd::Group::from_gid(gid.into()).ok().flatten();
    found.map_or_else(|| gid.to_string(), |group| group.name)
}

/// The mode of a file, given as an octal number.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileMode(pub u32);

impl FromValue for FileMode {
    const TAKES: &'static str = "an octal number from 0 to 7777";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let text = String::from_value(value)?;
        match u32::from_str_radix(text.strip_prefix("0o").unwrap_or(&text), 8) {
            Ok(mode @ 0..=0o7777) => Ok(Self(mode)),
            _ => Err(Mismatch::of::<Self>(&text.into())),
        }
    }
}

/// Returns the mode as it is shown.
pub(super) fn shown_mode(status: &Stat) -> String {
    format!("{:04o}", status.st_mode & 0o7777)
}

fn shown_owner(user: u32, group: u32) -> Value {
    Value::map([
        ("user", Value::from(user_name(user))),
        ("group", Value::from(group_name(group))),
    ])
}

/// A file or folder that is opened to change its attributes, and nothing else.
pub(super) struct Attributes {
    descriptor: OwnedFd,
    pub status: Stat,
}

impl Attributes {
    /// Opens what stands at a place; a link is refused.
    ///
    /// # Errors
    /// When there is nothing, or a link.
    pub(super) fn of(place: &Place) -> Result<Self, Failure> {
        let why = |why| failed("open", &place.path, why);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = openat(&place.folder, &place.name, flags, Mode::empty()).map_err(why)?;
        let status = fstat(&descriptor).map_err(why)?;
        if super::place::file_type(&status) == rustix::fs::FileType::Symlink {
            return Err(failed(
                "open",
                &place.path,
                "it became a symbolic link meanwhile",
            ));
        }
        Ok(Self { descriptor, status })
    }

    /// Sets the owner.
    pub(super) fn set_owner(
        &self,
        user: Option<u32>,
        group: Option<u32>,
    ) -> rustix::io::Result<()> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        chownat(&self.descriptor, "", user, group, AtFlags::EMPTY_PATH)
    }

    /// Sets the mode.
    pub(super) fn set_mode(&self, mode: u32) -> rustix::io::Result<()> {
        // Linux takes a mode for such a descriptor in no other way.
        let path = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))
    }
}

/// Sets the owner of a file or folder.
///
/// path
///     The absolute path. A symbolic link is followed.
///
/// user, group
///     Names or numbers. An empty text leaves one as it is.
///
/// test
///     `True` only tells what would change.
///
/// CLI Example:
///
///     saline '*' file.chown /srv/data www-data www-data
#[function(changes)]
pub(super) fn chown(
    _job: &JobContext<'_>,
    path: AbsolutePath,
    user: Value,
    group: Value,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let wrong = |mismatch: Mismatch| {
        let Mismatch { expected, found } = mismatch;
        Failure::Invocation(format!("chown takes {expected}, not {found}"))
    };
    let is_given = |value: &Value| !matches!(value.as_str(), Some("")) && *value != Value::Null;
    let user = match is_given(&user) {
        true => Some(User::from_value(user).map_err(wrong)?.0),
        false => None,
    };
    let group = match is_given(&group) {
        true => Some(Group::from_value(group).map_err(wrong)?.0),
        false => None,
    };
    let place = Place::followed(&path)?;
    let file = Attributes::of(&place)?;
    let old = (file.status.st_uid, file.status.st_gid);
    let new = (user.unwrap_or(old.0), group.unwrap_or(old.1));
    if new != old && !test {
        file.set_owner(user, group)
            .map_err(|why| failed("change the owner of", &place.path, why))?;
    }
    let mut answer = Answer::new(new != old, test);
    answer.add("old", shown_owner(old.0, old.1));
    answer.add("new", shown_owner(new.0, new.1));
    Ok(answer.into_value())
}

/// Sets the mode of a file or folder.
///
/// path
///     The absolute path. A symbolic link is followed.
///
/// mode
///     An octal number, such as 0644.
///
/// test
///     `True` only tells what would change.
///
/// CLI Example:
///
///     saline '*' file.set_mode /etc/app.conf 0640
#[function(changes)]
pub(super) fn set_mode(
    _job: &JobContext<'_>,
    path: AbsolutePath,
    mode: FileMode,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let place = Place::followed(&path)?;
    let file = Attributes::of(&place)?;
    let old = file.status.st_mode & 0o7777;
    if old != mode.0 && !test {
        file.set_mode(mode.0)
            .map_err(|why| failed("change the mode of", &place.path, why))?;
    }
    let mut answer = Answer::new(old != mode.0, test);
    answer.add("old", shown_mode(&file.status));
    answer.add("new", format!("{:04o}", mode.0));
    Ok(answer.into_value())
}
