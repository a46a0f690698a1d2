//! What apt and dpkg print where they have no format for programs. apt-get(8) describes the lines of a simulation.

use std::collections::BTreeMap;

use saline_data::Value;

use super::changes::Changes;
use super::dpkg::Listing;

/// Reads what `apt-get --simulate` would do: `Inst name [old] (new …)`, `Remv name [old]` and `Purg name [old]`.
pub(super) fn simulated(text: &str, before: &Listing) -> Changes {
    let mut changes = Changes::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(verb), Some(name)) = (words.next(), words.next()) else {
            continue;
        };
        let old = before.known_version(&name).unwrap_or_default();
        match verb {
            "Inst" => {
                let rest = line.split_once(" (").map_or("", |(_, rest)| rest);
                let new = rest.split([' ', ')']).next().unwrap_or_default();
                changes.add(name, before.version(&name).unwrap_or_default(), new);
            }
            "Remv" | "Purg" => changes.add(name, old, ""),
            _ => {}
        }
    }
    changes
}

/// Reads which repositories `apt-get update` fetched: `Get:1 http://… stable InRelease [48 kB]`, or `Hit`, `Ign` and
/// `Err`.
pub(super) fn repositories(text: &str) -> Vec<(String, Value)> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let Some((verb, rest)) = line.split_once(':') else {
            continue;
        };
        let Some((number, item)) = rest.split_once(' ') else {
            continue;
        };
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let fetched = match verb {
            "Get" => Value::Bool(true),
            "Hit" | "Ign" => Value::Null,
            "Err" => Value::Bool(false),
            _ => continue,
        };
        let item = item.rsplit_once(" [").map_or(item, |(item, _)| item);
        found.insert(item.to_owned(), fetched);
    }
    found.into_iter().collect()
}

/// Reads the versions in the records that `apt-cache show` prints: fields, a field in each line, and a blank line after
/// each record. A record of another architecture than all and `own` counts with its architecture behind a colon.
pub(super) fn candidates(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let (mut name, mut architecture, mut version) = ("", "", "");
    for line in text.lines().chain([""]) {
        if let Some(value) = line.strip_prefix("Package: ") {
            name = value;
        } else if let Some(value) = line.strip_prefix("Architecture: ") {
            architecture = value;
        } else if let Some(value) = line.strip_prefix("Version: ") {
            version = value;
        } else if line.is_empty() {
            if !name.is_empty() && !version.is_empty() {
                found.push((name.to_owned(), architecture.to_owned(), version.to_owned()));
            }
            (name, architecture, version) = ("", "", "");
        }
    }
    found
}

/// Reads the package that `dpkg-query --search` found to have a file: `name, name: /path`. Lines about diversions are about
/// no package.
pub(super) fn owner<'a>(text: &'a str, path: &str) -> Option<&'a str> {
    let mut lines = text
        .lines()
        .filter(|line| !line.starts_with("diversion by "));
    lines.find_map(|line| line.strip_suffix(path)?.strip_suffix(": "))
}

/// The beginnings of the lines in which apt and dpkg tell of their progress.
const PROGRESS: [&str; 18] = [
    "(Reading database",
    "After this operation",
    "Building dependency tree",
    "Fetched ",
    "Get:",
    "Hit:",
    "Ign:",
    "Need to get",
    "Preconfiguring packages",
    "Preparing to unpack",
    "Processing triggers",
    "Reading package lists",
    "Reading state information",
    "Selecting previously unselected",
    "Setting up ",
    "Unpacking ",
    "debconf: delaying package configuration",
    "debconf: unable to initialize frontend",
];

/// Returns the lines of an output that say why a command failed: its last lines without those about its progress, and all
/// errors and warnings of apt and dpkg, up to a bound.
pub(super) fn telling_lines(text: &str) -> Vec<&str> {
    const MAX_LINES: usize = 20;
    let is_progress = |line: &&str| {
        line.contains(" upgraded, ") || PROGRESS.iter().any(|start| line.starts_with(start))
    };
    let is_error = |line: &&str| {
        let starts = ["E:", "W:", "Err:", "dpkg:", "dpkg-deb:"];
        starts.iter().any(|start| line.starts_with(start))
    };
    let lines = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    let all: Vec<&str> = lines.collect();
    let telling: Vec<&str> = all
        .iter()
        .copied()
        .filter(|line| !is_progress(line))
        .collect();
    let lines = if telling.is_empty() { all } else { telling };
    let (earlier, last) = lines.split_at(lines.len().saturating_sub(MAX_LINES));
    let mut earlier: Vec<&str> = earlier.iter().copied().filter(is_error).collect();
    earlier.truncate(MAX_LINES);
    [&earlier, last].concat()
}
