//! What the master does about events, as its configuration has it.

use std::path::{Path, PathBuf};

use saline_targeting::Glob;

use crate::AccessRule;

/// `reactor` and the options beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReactorConfig {
    /// `reactor`: what is done about which events, in its order.
    pub reactions: Vec<Reaction>,
    /// `reactor_acl`: what reactions may do; none for everything.
    pub acl: Option<Vec<AccessRule>>,
    /// `reactor_worker_threads`: how many events are worked on at a time.
    pub workers: usize,
    /// `reactor_worker_hwm`: how many events are in memory at most.
    pub most_events: usize,
}

/// The files that are rendered for events with some tags.
#[derive(Debug, Clone)]
pub struct Reaction {
    /// The glob over tags, as it is written.
    pub tag: String,
    /// The same, compiled.
    pub glob: Glob,
    /// The files, in the order in which they are rendered.
    pub files: Vec<ReactionFile>,
}

/// A file of a reaction, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReactionFile {
    /// An absolute path, or a glob over the last part of one.
    Path(PathBuf),
    /// The path of `salt://PATH`, below `file_roots` of the environment `base`.
    Served(String),
}

impl PartialEq for Reaction {
    /// Reactions are equal when they are written in the same way.
    fn eq(&self, other: &Self) -> bool {
        self.tag == other.tag && self.files == other.files
    }
}

impl Default for ReactorConfig {
    fn default() -> Self {
        Self {
            reactions: Vec::new(),
            acl: None,
            workers: 10,
            most_events: 10_000,
        }
    }
}

impl ReactionFile {
    /// Reads a file of a reaction.
    ///
    /// # Errors
    /// The end of a sentence that begins with the name of the file.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        if text.contains(['\0', '\n']) {
            return Err("is not a path");
        }
        if let Some(path) = text.strip_prefix("salt://") {
            let is_odd = |part: &str| matches!(part, "" | "." | "..");
            return match path.split('/').any(is_odd) {
                true => Err("is not a path below file_roots"),
                false => Ok(Self::Served(path.to_owned())),
            };
        }
        if !text.starts_with('/') || text.ends_with('/') {
            return Err("is neither an absolute path nor `salt://PATH`");
        }
        let folder = Path::new(text).parent().map(Path::to_string_lossy);
        match folder.is_some_and(|folder| folder.contains(['*', '?', '['])) {
            true => {
                Err("has a glob in the name of a folder: only the last part of a path may be one")
            }
            false => Ok(Self::Path(PathBuf::from(text))),
        }
    }
}

impl std::fmt::Display for ReactionFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Served(path) => write!(f, "salt://{path}"),
        }
    }
}
