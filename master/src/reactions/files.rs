//! The files of the reactor: found by their path or by a glob, read again for each event.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use saline_config::{BASE, ReactionFile};
use saline_jailed_files::{InnerPath, OpenError, Root};
use saline_render::{File, Files, MAX_FILE};
use saline_targeting::Glob;

use crate::settings::ServedFiles;

/// The most files that one glob names.
const MAX_FILES: usize = 1_000;

/// A file of the reactor that is to be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A file of the disk: its folder and its name.
    InFolder(PathBuf, String),
    /// A file below `file_roots`.
    Served(String),
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InFolder(folder, name) => write!(f, "{}", folder.join(name).display()),
            Self::Served(path) => write!(f, "salt://{path}"),
        }
    }
}

/// Returns the files that an entry of the configuration names, in the order of their names. Blocks on the disk.
///
/// # Errors
/// One line, when a folder cannot be read.
pub(super) fn find(file: &ReactionFile) -> Result<Vec<Found>, String> {
    let path = match file {
        ReactionFile::Served(path) => return Ok(vec![Found::Served(path.clone())]),
        ReactionFile::Path(path) => path,
    };
    let (Some(folder), Some(name)) = (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    ) else {
        return Err(format!("{} names no file", path.display()));
    };
    if !name.contains(['*', '?', '[']) {
        return Ok(vec![Found::InFolder(folder.to_owned(), name.to_owned())]);
    }
    let cannot =
        |error: &dyn std::fmt::Display| format!("{} cannot be read: {error}", folder.display());
    let glob = Glob::compile(name).map_err(|error| cannot(&error))?;
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return Err(cannot(&error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| cannot(&error))?.file_name();
        let Ok(name) = name.into_string() else {
            continue;
        };
        // As a shell has it, a glob names no hidden file.
        if name.starts_with('.') || !glob.matches(&name) {
            continue;
        }
        if names.len() >= MAX_FILES {
            return Err(format!(
                "{} names more than {MAX_FILES} files",
                path.display()
            ));
        }
        names.push(name);
    }
    names.sort_unstable();
    let found = names.into_iter();
    Ok(found
        .map(|name| Found::InFolder(folder.to_owned(), name))
        .collect())
}

/// Returns why a file that an entry of the configuration names cannot be read now; none if it can, or if each file of a glob can.
/// Blocks on the disk.
pub(super) fn missing(file: &ReactionFile, served: &Arc<ServedFiles>) -> Option<String> {
    let found = match find(file) {
        Ok(found) if found.is_empty() => return Some("no file has such a name".to_owned()),
        Ok(found) => found,
        Err(why) => return Some(why),
    };
    found.iter().find_map(|found| {
        let read = ReactionFiles::open(found, Arc::clone(served))
            .and_then(|(files, name)| files.read(&name));
        match read {
            Ok(Some(_)) => None,
            Ok(None) => Some("there is no such file".to_owned()),
            Err(why) => Some(why),
        }
    })
}

/// A file and those that it may include: of its own folder as `./NAME`, and below `file_roots` of `base`.
pub(super) struct ReactionFiles {
    own: Option<OwnFolder>,
    served: Arc<ServedFiles>,
}

struct OwnFolder {
    root: Root,
    /// The path of the folder without its first slash, with which the names of its files begin.
    prefix: String,
}

impl ReactionFiles {
    /// Opens the folders. Returns also the name by which the file is rendered.
    ///
    /// # Errors
    /// When the folder cannot be opened.
    pub(super) fn open(file: &Found, served: Arc<ServedFiles>) -> Result<(Self, String), String> {
        match file {
            Found::Served(path) => Ok((Self { own: None, served }, path.clone())),
            Found::InFolder(folder, name) => {
                let root = Root::open(folder).map_err(|error| {
                    format!("the folder {} cannot be opened: {error}", folder.display())
                })?;
                let parts = folder.components().filter_map(|part| match part {
                    std::path::Component::Normal(part) => Some(part.to_string_lossy()),
                    _ => None,
                });
                let prefix = parts.map(|part| format!("{part}/")).collect::<String>();
                let file = format!("{prefix}{name}");
                let own = Some(OwnFolder { root, prefix });
                Ok((Self { own, served }, file))
            }
        }
    }
}

impl Files for ReactionFiles {
    fn read(&self, name: &str) -> Result<Option<File>, String> {
        if let Some(own) = &self.own
            && let Some(inner) = name.strip_prefix(own.prefix.as_str())
            && let Some(file) = read_below(&own.root, inner)?
        {
            return Ok(Some(file));
        }
        if self.served.is_ignored(name) {
            return Ok(None);
        }
        for folder in self.served.roots(BASE).unwrap_or_default() {
            if let Some(root) = open_if_there(folder)?
                && let Some(file) = read_below(&root, name)?
            {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

fn open_if_there(folder: &Path) -> Result<Option<Root>, String> {
    match Root::open(folder) {
        Ok(root) => Ok(Some(root)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!(
            "the folder {} of file_roots cannot be opened: {error}",
            folder.display()
        )),
    }
}

fn read_below(root: &Root, name: &str) -> Result<Option<File>, String> {
    let path = || root.path().join(name).display().to_string();
    let inner = InnerPath::parse(name).map_err(|error| error.to_string())?;
    let bytes = match root.read(&inner, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(OpenError::NotFound) => return Ok(None),
        Err(error) => return Err(format!("{} cannot be read: {error}", path())),
    };
    let text = String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8 text", path()))?;
    Ok(Some(File { path: path(), text }))
}
