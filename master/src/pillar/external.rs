//! `ext_pillar`: what a command prints, and files as values.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_process_group};
use saline_config::ExternalPillar;
use saline_data::{Value, json};
use saline_exec::{Description, End, Environment, Launcher, Process, Streams};
use saline_jailed_files::{InnerPath, ListingLimits, OpenError, Root};
use saline_messages::MAX_PILLAR;
use saline_protocol::transport::{Clock, Instant};
use saline_targeting::{Assignments, Candidate, Inclusion, Nodegroups, Target, TargetKind};

use crate::facts::Trusted;

/// How long a command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// What a folder of `file_tree` may hold.
const FILE_TREE_LIMITS: ListingLimits = ListingLimits {
    entries: 10_000,
    bytes: 4 * 1024 * 1024,
};

/// What targets may name.
pub(super) struct Names<'a> {
    pub(super) nodegroups: &'a Nodegroups,
    pub(super) assignments: &'a Assignments,
    pub(super) trusted_grains: &'a BTreeSet<String>,
}

/// The entries of a source.
type Entries = Vec<(String, Value)>;

/// Returns what a source has for a minion. Blocks.
///
/// # Errors
/// A line for the operator. Nothing that a command printed is in it: that may be a secret.
pub(super) fn read(
    source: &ExternalPillar,
    minion: &Trusted,
    names: &Names<'_>,
    launcher: &Launcher,
) -> Result<Vec<Entries>, String> {
    match source {
        ExternalPillar::CmdJson(command) => {
            let entries = cmd_json(command, minion.id().as_str(), launcher);
            let entries = entries.map_err(|why| format!("the cmd_json of ext_pillar {why}"))?;
            Ok(vec![entries])
        }
        ExternalPillar::FileTree { root, keep_newline } => {
            file_tree(root, *keep_newline, minion, names)
                .map_err(|why| format!("the file_tree {} of ext_pillar {why}", root.display()))
        }
    }
}

/// Runs a command, and reads the mapping that it prints.
fn cmd_json(command: &str, id: &str, launcher: &Launcher) -> Result<Entries, String> {
    // An id has no character that a shell takes for another.
    let command = command.replace("%s", id);
    let cannot = |error: &dyn std::fmt::Display| format!("cannot be run: {error}");
    let command = CString::new(command).map_err(|error| cannot(&error))?;
    let argv = vec![c"/bin/sh".to_owned(), c"-c".to_owned(), command];
    let (description, environment) = launcher.describe(argv);
    let environment: Result<Vec<CString>, _> = Environment::into_strings(environment);
    let description = Description {
        environment: environment.map_err(|error| cannot(&error))?,
        ends_with_starter: true,
        ..description
    };
    let nowhere = || {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
    };
    let (output, printed) = UnixStream::pair().map_err(|error| cannot(&error))?;
    let streams = Streams {
        input: nowhere().map_err(|error| cannot(&error))?.into(),
        output: printed.into(),
        error: nowhere().map_err(|error| cannot(&error))?.into(),
    };
    let process = launcher.start(&description, streams);
    let running = Running(process.map_err(|error| cannot(&error))?);
    let ends = Clock.after(COMMAND_TIMEOUT);
    let printed = read_until_end(&output, ends)?;
    let end = wait(&running.0, ends)?;
    match end.retcode() {
        0 => {}
        code => return Err(format!("failed with the exit code {code}")),
    }
    match json::read(&printed) {
        Ok(Value::Map(entries)) => Ok(entries),
        Ok(_) => Err("printed JSON that is not a mapping".to_owned()),
        Err(_) => Err("printed something else than JSON".to_owned()),
    }
}

/// A command, which is ended with all that it started when this is dropped.
struct Running(Process);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0.pid(), Signal::KILL);
    }
}

fn late() -> String {
    format!("takes longer than {} s", COMMAND_TIMEOUT.as_secs())
}

/// Waits for the end of a command that has closed its output.
fn wait(process: &Process, ends: Instant) -> Result<End, String> {
    let lost = |error: std::io::Error| format!("got lost: {error}");
    loop {
        if let Some(end) = process.try_wait().map_err(lost)? {
            return Ok(end);
        }
        let left = ends.saturating_duration_since(Clock.now());
        if left.is_zero() {
            return Err(late());
        }
        let left = Timespec::try_from(left).map_err(|_| late())?;
        let mut ended = [PollFd::new(process, PollFlags::IN)];
        match poll(&mut ended, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(lost(error.into())),
        }
    }
}

/// Reads what a command prints, until it and what it started have closed their output.
fn read_until_end(mut output: &UnixStream, ends: Instant) -> Result<Vec<u8>, String> {
    let (mut printed, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let left = ends.saturating_duration_since(Clock.now());
        if left.is_zero() {
            return Err(late());
        }
        output
            .set_read_timeout(Some(left))
            .map_err(|error| error.to_string())?;
        match output.read(&mut buffer) {
            Ok(0) => return Ok(printed),
            Ok(read) if printed.len() + read > MAX_PILLAR => {
                return Err(format!("printed more than {MAX_PILLAR} bytes"));
            }
            Ok(read) => printed.extend_from_slice(&buffer[..read]),
            Err(error) => match error.kind() {
                std::io::ErrorKind::Interrupted => {}
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => return Err(late()),
                _ => return Err(format!("cannot be heard: {error}")),
            },
        }
    }
}

/// Reads the files of the nodegroups that a minion is in, by their names, and then its own.
fn file_tree(
    root: &Path,
    keep_newline: bool,
    minion: &Trusted,
    names: &Names<'_>,
) -> Result<Vec<Entries>, String> {
    let opened = Root::open(root).map_err(|error| format!("cannot be opened: {error}"))?;
    let mut folders = Vec::new();
    for group in names.nodegroups.names() {
        if is_in(group, minion, names)? {
            folders.push(format!("nodegroups/{group}"));
        }
    }
    folders.push(format!("hosts/{}", minion.id()));
    let mut all = Vec::new();
    for folder in folders {
        // The name of a nodegroup is no path where it has other characters.
        let Ok(path) = InnerPath::parse(&folder) else {
            continue;
        };
        all.extend(read_folder(&opened, &path, keep_newline)?);
    }
    Ok(all)
}

/// Whether a minion is in a nodegroup, by trusted facts.
fn is_in(group: &str, minion: &Trusted, names: &Names<'_>) -> Result<bool, String> {
    let target = Target {
        kind: TargetKind::Nodegroup,
        expression: group.to_owned(),
    };
    let expanded = target.expand(names.nodegroups, names.assignments);
    let compiled = expanded.and_then(|expanded| expanded.target.compile());
    let compiled = compiled.map_err(|error| format!("and the nodegroup {group}: {error}"))?;
    if !compiled.looks_only_at(names.trusted_grains) {
        // Nobody is in it by what it says of itself, nor by the pillar that is compiled here.
        return Ok(false);
    }
    let candidate = Candidate {
        id: minion.id().as_str(),
        grains: minion.grains(),
        pillar: None,
    };
    match compiled.decide(candidate) {
        Ok(Inclusion::Included) => Ok(true),
        Ok(Inclusion::Excluded | Inclusion::Unknown) => Ok(false),
        Err(error) => Err(format!("and the nodegroup {group}: {error}")),
    }
}

/// Returns the files below a folder as a mapping; none where it is absent.
fn read_folder(
    root: &Root,
    folder: &InnerPath,
    keep_newline: bool,
) -> Result<Option<Entries>, String> {
    let listed = match root.list(folder, FILE_TREE_LIMITS, |_| true) {
        Ok(listed) => listed.map_err(|_| format!("has too many files in {}", folder.as_str()))?,
        Err(OpenError::NotFound) => return Ok(None),
        Err(error) => return Err(format!("cannot be listed at {}: {error}", folder.as_str())),
    };
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for entry in listed.after(None) {
        if entry.kind != saline_jailed_files::EntryKind::File {
            continue;
        }
        let cannot =
            |error: &dyn std::fmt::Display| format!("cannot be read at {}: {error}", entry.path);
        let path = InnerPath::parse(entry.path).map_err(|error| cannot(&error))?;
        let left = MAX_PILLAR - bytes;
        let mut content = root.read(&path, left).map_err(|error| cannot(&error))?;
        bytes += content.len();
        if !keep_newline && content.last() == Some(&b'\n') {
            content.pop();
        }
        let below: Vec<&str> = path
            .components()
            .skip(folder.components().count())
            .collect();
        put(&mut entries, &below, Value::from_output(content));
    }
    Ok(Some(entries))
}

/// Puts a value at a path of names.
fn put(entries: &mut Entries, path: &[&str], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        entries.push(((*name).to_owned(), value));
        return;
    }
    let at = entries.iter().position(|(own, _)| own == name);
    let at = at.unwrap_or_else(|| {
        entries.push(((*name).to_owned(), Value::Map(Vec::new())));
        entries.len() - 1
    });
    if let Value::Map(inner) = &mut entries[at].1 {
        put(inner, rest, value);
    }
}
