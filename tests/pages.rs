//! The pages of `docs/`: their links lead somewhere, the source files that they name by a path are there, and the messages that they quote are
//! printed by a program.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all files below a folder that have this extension.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    files(&root().join("docs"), "md", &mut pages);
    pages
}

/// Returns the anchor of a heading, as hosts of repositories make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
        .collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        let folder = path.parent().unwrap();
        for link in page.split("](").skip(1) {
            let link = link.split([')', ' ']).next().unwrap();
            if link.contains("://") || link.starts_with('<') {
                continue;
            }
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => folder.join(file),
            };
            let is_there = match wanted {
                "" => target.exists(),
                wanted => fs::read_to_string(&target)
                    .is_ok_and(|target| anchors(&target).contains(wanted)),
            };
            if !is_there {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
}

/// Whether a text between backticks is the path of a source file or folder from the root on, and not from a folder that was named before.
fn is_path(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let in_folder = text.split_once('/').filter(|(first, _)| !first.is_empty());
    text.chars().all(is_plain)
        && (text.ends_with(".rs") || text.ends_with('/'))
        && in_folder
            .is_some_and(|(first, rest)| rest.starts_with("src/") || root().join(first).is_dir())
}

#[test]
fn every_file_that_is_named_is_there() {
    let mut missing = Vec::new();
    for path in pages() {
        // It names files of its reader's own crate.
        if path.ends_with("writing-a-transport.md") {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let names: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
            // A line may name a folder first, and then what is in it.
            let of_ours = names.iter().filter(|name| !name.starts_with('/'));
            let whole = of_ours.map(|name| root().join(name));
            let mut folders: Vec<PathBuf> = vec![root().to_owned()];
            for there in whole.filter(|path| path.exists()) {
                let inside = there.ancestors().take_while(|folder| *folder != root());
                folders.extend(inside.map(Path::to_owned));
            }
            let is_there = |name: &&&str| folders.iter().any(|folder| folder.join(name).exists());
            let named = names.iter().filter(|name| is_path(name));
            missing.extend(
                named
                    .filter(|name| !is_there(name))
                    .map(|name| format!("{}: {name}", path.display())),
            );
        }
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_messages_that_troubleshooting_quotes_are_printed() {
    let mut sources = Vec::new();
    for folder in [
        "master", "minion", "modules", "cli", "client", "daemon", "channel",
    ] {
        files(&root().join(folder).join("src"), "rs", &mut sources);
    }
    let mut printed = String::new();
    for path in sources {
        // A text that goes on in the next line of the source is one line.
        for line in fs::read_to_string(path).unwrap().lines() {
            let line = line.trim_start();
            match line.strip_suffix('\\') {
                Some(begun) => printed.push_str(begun),
                None => printed.push_str(line),
            }
        }
    }
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let first = rows.filter_map(|row| row.split(" | ").next());
    let quoted = first.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let messages: Vec<&str> = quoted.filter(|text| text.contains(' ')).collect();
    assert!(messages.len() >= 8, "{messages:?}");
    // What stands for a name differs in every message.
    let is_unknown = |message: &&&str| !printed.contains(message.trim_start_matches("'x.y' "));
    let unknown: Vec<&&str> = messages.iter().filter(is_unknown).collect();
    assert_eq!(unknown, [&""; 0]);
}
