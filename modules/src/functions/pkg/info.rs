//! Tells what dpkg knows of packages: the fields of installed ones, and what is selected for each.

use std::collections::{BTreeMap, BTreeSet};

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::apt::Apt;
use super::asked::PackageName;
use crate::JobContext;

/// What stands between the fields of a package: no field has such a character.
const FIELD: char = '\u{1f}';

/// What stands behind each package.
const RECORD: char = '\u{1e}';

/// The fields of dpkg-query behind the name of the package, and what they are called in the return.
const FIELDS: [(&str, &str); 10] = [
    ("Version", "version"),
    ("Architecture", "arch"),
    ("source:Package", "source"),
    ("Section", "group"),
    ("Maintainer", "packager"),
    ("Homepage", "url"),
    ("Origin", "vendor"),
    ("Installed-Size", "install_size"),
    ("Description", "description"),
    ("db-fsys:Last-Modified", "install_date_time_t"),
];

/// The name of the date in the return, which is made of the last field.
const DATE: &str = "install_date";

/// The names of what is told of a package: a list, or a text with commas between them.
#[derive(Debug, Clone)]
pub(super) struct Attributes(BTreeSet<String>);

impl FromValue for Attributes {
    const TAKES: &'static str = "names of attributes, such as \"version,install_date\"";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let names: Vec<String> = match &value {
            Value::List(_) => Vec::from_value(value.clone())?,
            _ => String::from_value(value.clone())?
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect(),
        };
        let is_known = |name: &String| {
            [DATE, "name"].contains(&name.as_str()) || FIELDS.iter().any(|(_, known)| known == name)
        };
        match names.iter().all(is_known) {
            true => Ok(Self(names.into_iter().collect())),
            false => Err(Mismatch::of::<Self>(&value)),
        }
    }
}

/// Returns what dpkg knows of installed packages, of all of them if none is named: `name`, `version`, `arch`, `source`, `group` (the section),
/// `packager`, `url`, `vendor`, `install_size` (bytes on the disk), `description`, and when the package was installed or upgraded last
/// (`install_date` in UTC, and `install_date_time_t`). What a package does not have is left out.
///
/// attr
///     The names of the attributes that are returned, with commas between them; all by default.
///
/// failhard
///     `False` leaves out packages that are not installed. Otherwise one is a failure.
///
/// CLI Example:
///
///     saline '*' pkg.info_installed openssl attr=version,install_date
#[function]
pub(super) fn info_installed(
    job: &JobContext<'_>,
    #[args] names: Vec<PackageName>,
    attr: Option<Attributes>,
    #[default(true)] failhard: bool,
) -> Result<Value, Failure> {
    let apt = Apt { job };
    let known = packages(&apt.query(&format())?)?;
    let shown = |attributes: &BTreeMap<&str, String>| {
        let wanted = attributes.iter().filter(|(name, _)| {
            let attr = attr.as_ref();
            attr.is_none_or(|attr| attr.0.contains(**name))
        });
        Value::map(wanted.map(|(name, value)| (*name, typed(name, value))))
    };
    if names.is_empty() {
        return Ok(Value::map(
            known
                .iter()
                .map(|(name, package)| (name.clone(), shown(package))),
        ));
    }
    let mut found = Vec::new();
    for name in &names {
        match known.get(name.as_str()) {
            Some(package) => found.push((name.to_string(), shown(package))),
            None if failhard => {
                let text = format!("package {name} is not installed");
                return Err(Failure::Execution(text));
            }
            None => {}
        }
    }
    Ok(Value::Map(found))
}

/// Returns what is selected for the packages that dpkg knows: mappings of `install`, `hold`, `deinstall` and `purge` to lists of packages.
///
/// pattern
///     A glob, or several with blanks between them: only packages whose names match one.
///
/// state
///     One of the four words: only packages for which that is selected.
///
/// CLI Example:
///
///     saline '*' pkg.get_selections 'python-*'
///     saline '*' pkg.get_selections state=hold
#[function]
pub(super) fn get_selections(
    job: &JobContext<'_>,
    pattern: Option<String>,
    state: Option<Selection>,
) -> Result<Value, Failure> {
    let patterns = pattern.unwrap_or_default();
    let patterns: Vec<&str> = patterns.split_whitespace().collect();
    let selections = selections(&Apt { job }.selections(&patterns)?);
    let wanted = selections.into_iter().filter(|(selected, _)| {
        let state = state.as_ref();
        state.is_none_or(|state| state.0 == *selected)
    });
    Ok(Value::map(wanted.map(|(selected, names)| {
        let names = names.iter().map(String::as_str);
        (selected, Value::texts(names))
    })))
}

/// What dpkg is to do with a package.
#[derive(Debug, Clone)]
pub(super) struct Selection(String);

impl FromValue for Selection {
    const TAKES: &'static str = "install, hold, deinstall or purge";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let known = ["install", "hold", "deinstall", "purge"];
        let word = value.as_str().filter(|word| known.contains(word));
        let word = word.map(str::to_owned);
        word.map(Self).ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

/// Returns the packages by what is selected for them.
fn selections(printed: &str) -> BTreeMap<String, Vec<String>> {
    let mut selections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in printed.lines() {
        if let Some((name, selected)) = line.split_once(char::is_whitespace) {
            let names = selections.entry(selected.trim().to_owned()).or_default();
            names.push(name.to_owned());
        }
    }
    selections
}

/// Returns the format that dpkg-query is asked for.
fn format() -> String {
    let fields = FIELDS
        .iter()
        .map(|(field, _)| format!("{FIELD}${{{field}}}"));
    let fields: String = fields.collect();
    format!("${{Package}}{FIELD}${{db:Status-Status}}{fields}{RECORD}")
}

/// Reads what dpkg-query printed: the attributes of each installed package by their names. A package of another architecture than
/// that of dpkg has it behind its name, as in `pkg.list_pkgs`.
fn packages(printed: &str) -> Result<BTreeMap<String, BTreeMap<&'static str, String>>, Failure> {
    let mut installed = Vec::new();
    for record in printed.split_terminator(RECORD) {
        let fields: Vec<&str> = record.split(FIELD).collect();
        let Some((&[name, status], fields)) = fields.split_first_chunk::<2>() else {
            return Err(unknown(record));
        };
        if fields.len() != FIELDS.len() {
            return Err(unknown(record));
        }
        if status != "installed" {
            continue;
        }
        let named = FIELDS.iter().zip(fields);
        let named = named.filter(|(_, value)| !value.trim().is_empty());
        let mut attributes: BTreeMap<&'static str, String> = named
            .map(|((_, name), value)| (*name, (*value).trim().to_owned()))
            .collect();
        let date = attributes.get("install_date_time_t");
        if let Some(date) = date.and_then(|at| iso_date(at.parse().ok()?)) {
            attributes.insert(DATE, date);
        }
        attributes.insert("name", name.to_owned());
        installed.push(attributes);
    }
    // dpkg itself is of the architecture of the machine.
    let own = installed.iter().find(|package| package["name"] == "dpkg");
    let own = own.and_then(|dpkg| dpkg.get("arch")).cloned();
    let named = installed.into_iter().map(|package| {
        let name = package["name"].clone();
        let name = match package.get("arch") {
            Some(arch) if *arch != "all" && Some(arch) != own.as_ref() => format!("{name}:{arch}"),
            _ => name,
        };
        (name, package)
    });
    Ok(named.collect())
}

fn unknown(record: &str) -> Failure {
    let record: String = record.chars().take(200).collect();
    Failure::Execution(format!(
        "dpkg-query wrote a record of another form: {record:?}"
    ))
}

/// Writes a number of seconds since 1970 as a date in UTC.
fn iso_date(seconds: i64) -> Option<String> {
    let date = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
    date.format(&Rfc3339).ok()
}

/// Returns an attribute as a number, if it is one.
fn typed(name: &str, value: &str) -> Value {
    let number = value.parse::<i64>().ok();
    match (name, number) {
        // dpkg counts in KiB.
        ("install_size", Some(kib)) => Value::from(kib.saturating_mul(1024)),
        ("install_date_time_t", Some(seconds)) => Value::from(seconds),
        _ => Value::from(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(name: &str, arch: &str, status: &str) -> String {
        let fields = [
            name,
            status,
            "1:2.0-1",
            arch,
            "src",
            "net",
            "A <a@example.org>",
            "",
            "",
            "12",
            "One line\n and another",
            "1747699200",
        ];
        fields.join("\u{1f}") + "\u{1e}"
    }

    #[test]
    fn records_are_read_by_their_fields() {
        let printed = [
            record("dpkg", "amd64", "installed"),
            record("nginx", "amd64", "installed"),
            record("nginx", "i386", "installed"),
            record("doc", "all", "installed"),
            record("gone", "amd64", "config-files"),
        ];
        let read = packages(&printed.concat()).unwrap();
        let names: Vec<&str> = read.keys().map(String::as_str).collect();
        assert_eq!(names, ["doc", "dpkg", "nginx", "nginx:i386"]);
        let nginx = &read["nginx"];
        assert_eq!(nginx["install_date"], "2025-05-20T00:00:00Z");
        assert_eq!(nginx["description"], "One line\n and another");
        assert!(!nginx.contains_key("url"));
        assert_eq!(
            typed("install_size", &nginx["install_size"]),
            Value::Int(12 * 1024)
        );
        assert!(packages("nginx\u{1f}installed\u{1e}").is_err());
    }

    #[test]
    fn attributes_are_checked() {
        let read = |value: Value| Attributes::from_value(value).map(|read| read.0.len()).ok();
        assert_eq!(read("version, install_date".into()), Some(2));
        assert_eq!(read(Value::texts(["name", "url"])), Some(2));
        assert_eq!(read("version,nothing".into()), None);
    }

    proptest! {
        #[test]
        fn any_output_is_read_or_refused(text in "[a-z0-9\u{1f}\u{1e}\n\t ]{0,200}") {
            let _ = packages(&text);
            let all = selections(&text);
            prop_assert!(all.values().all(|names| !names.is_empty()));
        }
    }
}
