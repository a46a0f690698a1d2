//! `ext_pillar`: what a command prints, and files as values.

use std::collections::BTreeSet;
use std::path::Path;

use saline_config::ExternalPillar;
use saline_data::Value;
use saline_exec::Launcher;
use saline_jailed_files::{InnerPath, ListingLimits, OpenError, Root};
use saline_messages::MAX_PILLAR;
use saline_targeting::{Assignments, Candidate, Inclusion, Nodegroups, Target, TargetKind};

use super::cmd_json::{Entries, cmd_json};
use crate::facts::Trusted;

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

/// What a source of `ext_pillar` contributes to the pillar of a minion.
#[derive(Debug, Default)]
pub(super) struct ExternalEntries {
    /// The entries, to be merged in their order.
    pub(super) entries: Vec<Entries>,
    /// What was left out of them, a line each.
    pub(super) warnings: Vec<String>,
}

/// Returns what a source contributes to the pillar of a minion. Blocks.
///
/// # Errors
/// A line for the operator. Nothing that a command printed on its standard output is in it: that may be a secret.
pub(super) fn read(
    source: &ExternalPillar,
    minion: &Trusted,
    names: &Names<'_>,
    launcher: &Launcher,
) -> Result<ExternalEntries, String> {
    match source {
        ExternalPillar::CmdJson(command) => Ok(ExternalEntries {
            entries: vec![cmd_json(command, minion.id().as_str(), launcher)?],
            warnings: Vec::new(),
        }),
        ExternalPillar::FileTree { root, keep_newline } => {
            let of_tree =
                |why: String| format!("the file_tree {} of ext_pillar {why}", root.display());
            let mut found = file_tree(root, *keep_newline, minion, names).map_err(of_tree)?;
            found.warnings = found.warnings.into_iter().map(of_tree).collect();
            Ok(found)
        }
    }
}

/// Reads the files of the nodegroups that a minion is in, by their names, and then its own.
fn file_tree(
    root: &Path,
    keep_newline: bool,
    minion: &Trusted,
    names: &Names<'_>,
) -> Result<ExternalEntries, String> {
    let opened = Root::open(root).map_err(|error| format!("cannot be opened: {error}"))?;
    let mut folders = Vec::new();
    for group in names.nodegroups.names() {
        if is_in(group, minion, names)? {
            folders.push(format!("nodegroups/{group}"));
        }
    }
    folders.push(format!("hosts/{}", minion.id()));
    let mut found = ExternalEntries::default();
    for folder in folders {
        // The name of a nodegroup is no path where it has other characters.
        let Ok(path) = InnerPath::parse(&folder) else {
            continue;
        };
        read_folder(&opened, &path, keep_newline, &mut found)?;
    }
    Ok(found)
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

/// Adds the files below a folder, if it is there, as a mapping.
fn read_folder(
    root: &Root,
    folder: &InnerPath,
    keep_newline: bool,
    found: &mut ExternalEntries,
) -> Result<(), String> {
    let listed = match root.list(folder, FILE_TREE_LIMITS, |_| true) {
        Ok(listed) => listed.map_err(|_| format!("has too many files in {}", folder.as_str()))?,
        Err(OpenError::NotFound) => return Ok(()),
        Err(error) => return Err(format!("cannot be listed at {}: {error}", folder.as_str())),
    };
    if let Some(first) = &listed.first_skipped {
        let more = match listed.skipped {
            1 => String::new(),
            skipped => format!(" and {} more", skipped - 1),
        };
        found.warnings.push(format!(
            "leaves out {}{more}: a link that leads nowhere or out of the folder, a name that is not UTF-8, a special file, or a \
             folder that cannot be read",
            first.escape_debug()
        ));
    }
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
    found.entries.push(entries);
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_a_tree_leaves_out_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let below = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(below("hosts/web1/ssl")).unwrap();
        std::fs::write(below("hosts/web1/a"), "1\n").unwrap();
        symlink("a", below("hosts/web1/b")).unwrap();
        let read = || {
            let root = Root::open(folder.path()).unwrap();
            let host = InnerPath::parse("hosts/web1").unwrap();
            let mut found = ExternalEntries::default();
            read_folder(&root, &host, false, &mut found).unwrap();
            let entries = found.entries.concat().into_iter();
            (entries.map(|(name, _)| name).collect(), found.warnings)
        };
        let names = || vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(read(), (names(), Vec::new()));
        symlink("/etc/passwd", below("hosts/web1/ssl/key")).unwrap();
        symlink("nowhere", below("hosts/web1/z")).unwrap();
        let (found, warnings): (Vec<String>, _) = read();
        assert_eq!(found, names());
        assert_eq!(warnings.len(), 1);
        let begins = "leaves out hosts/web1/ssl/key and 1 more: a link that leads nowhere or out of the folder";
        assert!(warnings[0].starts_with(begins), "{warnings:?}");
    }
}
