//! `hosts`: the names of addresses in `/etc/hosts`.

use std::net::IpAddr;
use std::path::Path;

use saline_data::Value;
use saline_functions::{Failure, function};

use crate::change::change;
use crate::line_file::Lines;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &LIST_HOSTS,
    &GET_IP,
    &GET_ALIAS,
    &HAS_PAIR,
    &SET_HOST,
    &ADD_HOST,
    &RM_HOST,
];

/// The file.
const HOSTS: &str = "/etc/hosts";

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    address: IpAddr,
    names: Vec<String>,
    /// The comment at the end, with its `#`.
    comment: Option<String>,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let (entry, comment) = match line.find('#') {
            Some(at) => (&line[..at], Some(line[at..].to_owned())),
            None => (line, None),
        };
        let mut words = entry.split_whitespace();
        let address = words.next()?.parse().ok()?;
        Some(Self {
            address,
            names: words.map(str::to_owned).collect(),
            comment,
        })
    }

    fn line(&self) -> String {
        let mut line = format!("{}\t\t{}", self.address, self.names.join(" "));
        if let Some(comment) = &self.comment {
            line.push('\t');
            line.push_str(comment);
        }
        line
    }
}

/// Returns the names of each address.
///
/// CLI Example:
///
///     saline '*' hosts.list_hosts
#[function]
fn list_hosts(_: &JobContext<'_>) -> Result<Value, Failure> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for entry in read()?.texts().filter_map(|line| Entry::parse(&line)) {
        let address = entry.address.to_string();
        match found.iter_mut().find(|(known, _)| *known == address) {
            Some((_, names)) => names.extend(entry.names),
            None => found.push((address, entry.names)),
        }
    }
    let entries = found
        .into_iter()
        .map(|(address, names)| (address, Value::map([("aliases", Value::texts(names))])));
    Ok(Value::Map(entries.collect()))
}

/// Returns the address that the file gives a name; an empty text if it has none.
///
/// CLI Example:
///
///     saline '*' hosts.get_ip db.example.org
#[function]
fn get_ip(_: &JobContext<'_>, host: String) -> Result<String, Failure> {
    let lines = read()?;
    let found = lines
        .texts()
        .filter_map(|line| Entry::parse(&line))
        .find(|entry| entry.names.contains(&host));
    Ok(found.map_or_else(String::new, |entry| entry.address.to_string()))
}

/// Returns the names that the file gives an address.
///
/// CLI Example:
///
///     saline '*' hosts.get_alias 192.0.2.7
#[function]
fn get_alias(_: &JobContext<'_>, ip: String) -> Result<Value, Failure> {
    Ok(Value::texts(names_of(&read()?, address(&ip)?)))
}

/// Returns whether the file gives an address this name.
///
/// CLI Example:
///
///     saline '*' hosts.has_pair 192.0.2.7 db.example.org
#[function]
fn has_pair(_: &JobContext<'_>, ip: String, alias: String) -> Result<bool, Failure> {
    Ok(names_of(&read()?, address(&ip)?).contains(&alias))
}

/// Gives an address these names alone: its first line has them then, and further lines of it are removed. Other lines are not
/// touched. Returns the names, `{old, new}`.
///
/// alias
///     The names, with spaces between them; an empty text removes the address.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' hosts.set_host 192.0.2.7 'db.example.org db'
#[function(changes)]
fn set_host(
    _: &JobContext<'_>,
    ip: String,
    alias: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let names = checked_names(&alias)?;
    edit(test, address(&ip)?, |lines, address| {
        set(lines, address, &names)
    })
}

/// Gives an address a further name. Returns the names, `{old, new}`, nothing if it has the name already.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' hosts.add_host 192.0.2.7 db
#[function(changes)]
fn add_host(
    _: &JobContext<'_>,
    ip: String,
    alias: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let new = checked_names(&alias)?;
    edit(test, address(&ip)?, |lines, address| {
        let known = names_of(lines, address);
        let missing = new.into_iter().filter(|name| !known.contains(name));
        let missing: Vec<String> = missing.collect();
        if !missing.is_empty() {
            add(lines, address, &missing);
        }
    })
}

/// Takes a name away from an address; a line without names goes. Returns the names, `{old, new}`, nothing if it had not this
/// name.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' hosts.rm_host 192.0.2.7 db
#[function(changes)]
fn rm_host(
    _: &JobContext<'_>,
    ip: String,
    alias: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    edit(test, address(&ip)?, |lines, address| {
        remove(lines, address, &alias)
    })
}

fn read() -> Result<Lines, Failure> {
    Lines::read(Path::new(HOSTS))
}

/// Edits the file, and returns how the names of an address changed.
fn edit(
    test: bool,
    address: IpAddr,
    edit: impl FnOnce(&mut Lines, IpAddr),
) -> Result<Value, Failure> {
    let old = read()?;
    let mut new = old.clone();
    edit(&mut new, address);
    if new != old && !test {
        new.write(Path::new(HOSTS))?;
    }
    let names = |lines| Value::texts(names_of(lines, address));
    Ok(change(names(&old), names(&new)))
}

fn names_of(lines: &Lines, address: IpAddr) -> Vec<String> {
    let entries = lines.texts().filter_map(|line| Entry::parse(&line));
    entries
        .filter(|entry| entry.address == address)
        .flat_map(|entry| entry.names)
        .collect()
}

/// Gives an address these names alone.
fn set(lines: &mut Lines, address: IpAddr, names: &[String]) {
    if names_of(lines, address) == names {
        return;
    }
    let is_it = |line: &str| Entry::parse(line).is_some_and(|entry| entry.address == address);
    let first = lines.position(is_it);
    let mut number = 0;
    lines.retain(|line| {
        number += 1;
        !is_it(line) || (Some(number - 1) == first && !names.is_empty())
    });
    if names.is_empty() {
        return;
    }
    let old = first.and_then(|at| lines.texts().nth(at).and_then(|line| Entry::parse(&line)));
    let entry = Entry {
        address,
        names: names.to_vec(),
        comment: old.and_then(|old| old.comment),
    };
    match first {
        Some(at) => lines.set(at, &entry.line()),
        None => lines.push(&entry.line()),
    }
}

/// Adds names to the first line of an address.
fn add(lines: &mut Lines, address: IpAddr, names: &[String]) {
    let entries = lines.texts().map(|line| Entry::parse(&line));
    let found = entries
        .enumerate()
        .find_map(|(at, entry)| Some((at, entry.filter(|entry| entry.address == address)?)));
    match found {
        Some((at, mut entry)) => {
            entry.names.extend_from_slice(names);
            lines.set(at, &entry.line());
        }
        None => set(lines, address, names),
    }
}

/// Takes a name away from an address.
fn remove(lines: &mut Lines, address: IpAddr, name: &str) {
    let has = |line: &str| {
        Entry::parse(line)
            .filter(|entry| entry.address == address && entry.names.iter().any(|one| one == name))
    };
    let goes =
        |line: &str| has(line).is_some_and(|entry| entry.names.iter().all(|one| one == name));
    lines.retain(|line| !goes(line));
    while let Some(at) = lines.position(|line| has(line).is_some()) {
        let Some(mut entry) = lines.texts().nth(at).and_then(|line| has(&line)) else {
            return;
        };
        entry.names.retain(|one| one != name);
        lines.set(at, &entry.line());
    }
}

fn address(text: &str) -> Result<IpAddr, Failure> {
    text.parse()
        .map_err(|_| Failure::Invocation(format!("ip: {text:?} is not an IP address")))
}

fn checked_names(text: &str) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let is_usual = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    match names.iter().find(|name| !name.chars().all(is_usual)) {
        None => Ok(names),
        Some(name) => Err(Failure::Invocation(format!(
            "alias: {name:?} is not a name of a host"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file() -> impl Strategy<Value = Lines> {
        let line = "(192\\.0\\.2\\.[12][ \\t]+[abc]( [abc]){0,2}( # [a-z]{0,3})?|#[ -~]{0,12}|10\\.0\\.0\\.1 x|\\PC{0,6})";
        proptest::collection::vec(line, 0..8)
            .prop_map(|lines| Lines::of(lines.join("\n").as_bytes()))
    }

    /// The lines that are not about an address.
    fn foreign(lines: &Lines, address: IpAddr) -> Vec<String> {
        let is_foreign =
            |line: &str| Entry::parse(line).is_none_or(|entry| entry.address != address);
        lines
            .texts()
            .filter(|line| is_foreign(line))
            .map(|line| line.into_owned())
            .collect()
    }

    proptest! {
        #[test]
        fn edits_do_as_told_and_leave_foreign_lines_alone(before in file(), name in "[abcd]") {
            let address: IpAddr = "192.0.2.1".parse().unwrap();
            let edited = |edit: &dyn Fn(&mut Lines)| {
                let mut lines = before.clone();
                edit(&mut lines);
                assert_eq!(foreign(&lines, address), foreign(&before, address));
                names_of(&lines, address)
            };
            let names = [name.clone(), "new".to_owned()];
            prop_assert_eq!(edited(&|lines| set(lines, address, &names)), &names);
            prop_assert_eq!(edited(&|lines| set(lines, address, &[])), Vec::<String>::new());
            let added = edited(&|lines| add(lines, address, &["new".to_owned()]));
            prop_assert!(added.contains(&"new".to_owned()));
            let left = edited(&|lines| remove(lines, address, &name));
            let expected: Vec<String> = names_of(&before, address).into_iter().filter(|one| *one != name).collect();
            prop_assert_eq!(left, expected);
        }
    }

    #[test]
    fn a_comment_behind_names_stays() {
        let mut lines = Lines::of(b"192.0.2.1 a b # the database\n");
        set(&mut lines, "192.0.2.1".parse().unwrap(), &["c".to_owned()]);
        assert_eq!(lines.to_bytes(), b"192.0.2.1\t\tc\t# the database\n");
    }
}
