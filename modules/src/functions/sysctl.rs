//! `sysctl`: parameters of the kernel.

use std::path::{Path, PathBuf};

use saline_data::Value;
use saline_functions::{Failure, function};

use crate::change::change;
use crate::line_file::Lines;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&SHOW, &GET, &ASSIGN, &PERSIST, &DEFAULT_CONFIG];

/// Where the kernel has its parameters.
const PARAMETERS: &str = "/proc/sys";

/// Where parameters are kept over restarts; a name at the end of the order, so that nothing overrides them.
const CONFIG: &str = "/etc/sysctl.d/99-salt.conf";

/// The folders below each other that a parameter can have.
const DEPTH: usize = 16;

/// Returns all parameters with their values. One that cannot be read is left out.
///
/// config_file
///     The parameters of this file instead, as they are set when the machine starts.
///
/// CLI Example:
///
///     saline '*' sysctl.show
#[function]
fn show(_: &JobContext<'_>, config_file: Option<String>) -> Result<Value, Failure> {
    if let Some(file) = config_file {
        let lines = Lines::read(Path::new(&file))?;
        let entries: Vec<(String, String)> =
            lines.texts().filter_map(|line| setting(&line)).collect();
        return Ok(Value::map(
            entries
                .into_iter()
                .map(|(name, value)| (name, Value::from(value))),
        ));
    }
    let mut found = Vec::new();
    collect(Path::new(PARAMETERS), DEPTH, &mut found);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Value::Map(found))
}

/// Returns a parameter, with spaces between its numbers.
///
/// CLI Example:
///
///     saline '*' sysctl.get net.ipv4.ip_forward
#[function]
fn get(_: &JobContext<'_>, name: String) -> Result<String, Failure> {
    read(&path(&name)?).map_err(|error| Failure::Execution(format!("cannot read {name}: {error}")))
}

/// Sets a parameter until the machine restarts. Returns `{old, new}`, nothing if it has the value already.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' sysctl.assign net.ipv4.ip_forward 1
#[function(changes)]
fn assign(
    job: &JobContext<'_>,
    name: String,
    value: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let old = get(job, name.clone())?;
    let wanted = words(&value);
    if old == wanted || test {
        return Ok(change(old, wanted));
    }
    std::fs::write(path(&name)?, format!("{value}\n")).map_err(|error| {
        Failure::Execution(format!("the kernel refuses {value:?} for {name}: {error}"))
    })?;
    let new = get(job, name)?;
    Ok(change(old, new))
}

/// Sets a parameter now and at each start of the machine. Returns what the file said, `{old, new}`.
///
/// config
///     The file; by default that of `sysctl.default_config`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' sysctl.persist net.ipv4.ip_forward 1
#[function(changes)]
fn persist(
    job: &JobContext<'_>,
    name: String,
    value: String,
    #[default("/etc/sysctl.d/99-salt.conf")] config: String,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    if value.contains(['\n', '\r']) {
        return Err(Failure::Invocation("value: it must be one line".to_owned()));
    }
    let file = Path::new(&config);
    let mut lines = Lines::read(file)?;
    // Refused first, so that nothing is written that the kernel does not take.
    assign(job, name.clone(), value.clone(), test)?;
    let old = set(&mut lines, &name, &words(&value));
    let done = change(old.clone().map_or(Value::Null, Value::Text), words(&value));
    if !test && old.as_deref() != Some(&*words(&value)) {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::Execution(format!("cannot create {}: {error}", folder.display()))
            })?;
        }
        lines.write(file)?;
    }
    Ok(done)
}

/// Returns the file that `sysctl.persist` writes.
///
/// CLI Example:
///
///     saline '*' sysctl.default_config
#[function]
fn default_config(_: &JobContext<'_>) -> &'static str {
    CONFIG
}

/// Sets a parameter in a file, at its last line, which is the one that counts, or at the end. Returns the value that it had.
fn set(lines: &mut Lines, name: &str, value: &str) -> Option<String> {
    let same = |line: &str| {
        setting(line).filter(|(known, _)| known.replace('/', ".") == name.replace('/', "."))
    };
    let mut lines_from_last = lines.texts().enumerate().rev();
    let last = lines_from_last.find_map(|(at, line)| Some((at, same(&line)?.1)));
    drop(lines_from_last);
    let line = format!("{name} = {value}");
    match &last {
        Some((_, old)) if old == value => {}
        Some((at, _)) => lines.set(*at, &line),
        None => lines.push(&line),
    }
    last.map(|(_, old)| old)
}

/// Reads a line `name = value`.
fn setting(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    // The dash lets the start go on if the kernel has no such parameter.
    let name = name.trim().trim_start_matches('-');
    (!name.is_empty()).then(|| (name.to_owned(), words(value)))
}

fn words(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the file of a parameter: dots are slashes, and slashes dots, as in sysctl(8).
fn path(name: &str) -> Result<PathBuf, Failure> {
    let refused = || Failure::Invocation(format!("name: {name:?} is not the name of a parameter"));
    let swapped: String = match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('.') => name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect(),
        _ => name.to_owned(),
    };
    let is_part =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    match swapped.split('/').all(is_part) {
        true => Ok(Path::new(PARAMETERS).join(swapped)),
        false => Err(refused()),
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> = text.lines().map(words).collect();
    Ok(lines.join("\n"))
}

/// Collects the parameters below a folder.
fn collect(folder: &Path, depth: usize, found: &mut Vec<(String, Value)>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => collect(&path, depth - 1, found),
            Ok(kind) if kind.is_file() => {
                let (Ok(value), Ok(name)) = (read(&path), path.strip_prefix(PARAMETERS)) else {
                    continue;
                };
                let parts = name
                    .iter()
                    .map(|part| part.to_string_lossy().replace('.', "/"));
                found.push((parts.collect::<Vec<_>>().join("."), value.into()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_edit_leaves_other_lines_alone(
            lines in proptest::collection::vec("(a\\.b *= *[0-9]|c\\.d=1|# a\\.b=[0-9]|\\PC{0,6})", 0..8),
        ) {
            let before = Lines::of(lines.join("\n").as_bytes());
            let mut after = before.clone();
            set(&mut after, "a.b", "new value");
            let of = |lines: &Lines, own: bool| -> Vec<String> {
                let is_own = |line: &str| setting(line).is_some_and(|(name, _)| name == "a.b");
                lines.texts().filter(|line| is_own(line) == own).map(|line| line.into_owned()).collect()
            };
            prop_assert_eq!(of(&after, false), of(&before, false));
            let own = of(&after, true);
            prop_assert_eq!(own.last().unwrap(), "a.b = new value");
            prop_assert_eq!(own.len(), of(&before, true).len().max(1));
        }
    }

    #[test]
    fn no_name_leads_out_of_the_kernels_folder() {
        assert_eq!(
            path("net.ipv4.conf.eth0/1.forwarding").unwrap(),
            Path::new("/proc/sys/net/ipv4/conf/eth0.1/forwarding")
        );
        assert_eq!(
            path("net/ipv4/ip_forward").unwrap(),
            Path::new("/proc/sys/net/ipv4/ip_forward")
        );
        for name in [
            "",
            ".",
            "..",
            "../../etc/passwd",
            "/etc/passwd",
            "a..b",
            "a//b",
            "kernel.//.//x",
        ] {
            let found = path(name);
            let is_inside = found.as_ref().is_ok_and(|path| {
                path.components()
                    .all(|part| part != std::path::Component::ParentDir)
            });
            assert!(found.is_err() || is_inside, "{name:?}: {found:?}");
        }
        for name in ["", "..", "../../etc/passwd", "/etc/passwd", "a..b"] {
            assert!(path(name).is_err(), "{name:?}");
        }
    }
}
