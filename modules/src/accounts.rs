//! The users and groups of the machine, as lines of `/etc/passwd` and `/etc/group`.
//!
//! Names of numbers are looked up in the files, without a process. Functions about users ask `getent`, which knows those of
//! directory services too, and prints the same lines.

use saline_data::Value;
use saline_functions::Failure;

use crate::JobContext;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    /// The name.
    pub name: String,
    /// The number.
    pub uid: u32,
    /// The number of the user's own group.
    pub gid: u32,
    /// The full name, the room, and numbers of telephones, with commas between them.
    pub gecos: String,
    /// The home.
    pub home: String,
    /// The login shell.
    pub shell: String,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// The name.
    pub name: String,
    /// The number.
    pub gid: u32,
    /// The names of the users that the group lists; those whose own group it is are missing.
    pub members: Vec<String>,
}

impl Account {
    /// Reads a line of `/etc/passwd`; none if it is no entry.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, gecos, home, shell] = fields[..] else {
            return None;
        };
        Some(Self {
            name: name.to_owned(),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            gecos: gecos.to_owned(),
            home: home.to_owned(),
            shell: shell.to_owned(),
        })
    }

    /// Returns the users of a table.
    pub(crate) fn all_of(table: &str) -> Vec<Self> {
        table.lines().filter_map(Self::parse).collect()
    }

    /// Returns the users of `/etc/passwd`.
    pub(crate) fn local() -> Vec<Self> {
        Self::all_of(&read("/etc/passwd"))
    }
}

impl Group {
    /// Reads a line of `/etc/group`; none if it is no entry.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, members] = fields[..] else {
            return None;
        };
        let members = members.split(',').filter(|name| !name.is_empty());
        Some(Self {
            name: name.to_owned(),
            gid: gid.parse().ok()?,
            members: members.map(str::to_owned).collect(),
        })
    }

    /// Returns the groups of a table.
    pub(crate) fn all_of(table: &str) -> Vec<Self> {
        table.lines().filter_map(Self::parse).collect()
    }

    /// Returns the groups of `/etc/group`.
    pub(crate) fn local() -> Vec<Self> {
        Self::all_of(&read("/etc/group"))
    }

    /// Returns the group as Salt's `group.info` shows it.
    pub(crate) fn to_value(&self) -> Value {
        Value::map([
            ("name", Value::from(self.name.as_str())),
            ("passwd", Value::from("x")),
            ("gid", Value::from(u64::from(self.gid))),
            (
                "members",
                Value::texts(self.members.iter().map(String::as_str)),
            ),
        ])
    }
}

fn read(path: &str) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the name, if it is one that a user or a group can have: it cannot be taken for an option, a list or a field.
///
/// # Errors
/// When it cannot.
pub(crate) fn checked_name(name: &str) -> Result<&str, Failure> {
    let is_usual =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '$' | '@' | '\\');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    match begins && name.len() <= 64 && name.chars().all(is_usual) {
        true => Ok(name),
        false => Err(Failure::Invocation(format!(
            "{name:?} is not the name of a user or a group: letters, digits, '_', '-' and '.', and a letter, a digit or '_' first"
        ))),
    }
}

impl JobContext<'_> {
    /// Returns a table of users or groups, or the line of one of them; empty if there is no such one.
    pub(crate) fn name_service(&self, table: &str, key: Option<&str>) -> Result<String, Failure> {
        let mut words = vec!["getent", table];
        if let Some(key) = key {
            words.extend(["--", checked_name(key)?]);
        }
        let end = self.program(&words, "")?;
        match end.retcode {
            0 => Ok(end.stdout),
            // The key is unknown, or the table is empty.
            2 => Ok(String::new()),
            _ => Err(Failure::Execution(format!(
                "getent failed: {}",
                end.stderr.trim()
            ))),
        }
    }

    /// Returns the user of this name, if there is one.
    pub(crate) fn account(&self, name: &str) -> Result<Option<Account>, Failure> {
        let found = Account::all_of(&self.name_service("passwd", Some(name))?);
        Ok(found.into_iter().find(|account| account.name == name))
    }

    /// Returns the group of this name, if there is one.
    pub(crate) fn group(&self, name: &str) -> Result<Option<Group>, Failure> {
        let found = Group::all_of(&self.name_service("group", Some(name))?);
        Ok(found.into_iter().find(|group| group.name == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_users_and_groups() {
        let ann = Account::parse("ann:x:1000:100:Ann,,:/home/ann:/bin/sh").unwrap();
        assert_eq!(
            (ann.uid, ann.gid, ann.home.as_str()),
            (1000, 100, "/home/ann")
        );
        let wheel = Group::parse("wheel:x:10:ann,bob").unwrap();
        assert_eq!(wheel.members, ["ann", "bob"]);
        for none in ["", "ann", "a:b:c:d:e:f:g", "a:x:-1:0:::"] {
            assert_eq!(Account::parse(none), None, "{none:?}");
            assert_eq!(Group::parse(none), None, "{none:?}");
        }
    }

    #[test]
    fn no_name_is_an_option_or_a_field() {
        for name in ["-r", "--root", "", "a:b", "a b", "a\nb", "a,b", ".a", "a/b"] {
            assert!(checked_name(name).is_err(), "{name:?}");
        }
        for name in ["ann", "_apt", "host$", "a.b-c", "DOMAIN\\ann", "0day"] {
            assert!(checked_name(name).is_ok(), "{name:?}");
        }
    }
}
