//! The errors of a configuration, each in one line with its place.

use std::path::PathBuf;

use saline_data::yaml::YamlError;
use saline_targeting::AssignmentError;

/// The largest number of mistakes that one error lists.
const MAX_LISTED: usize = 20;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The configuration folder does not exist.
    #[error("there is no configuration folder {}; -c DIR names another", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A file exists and cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// Options of Salt that restrict what a daemon does, and have no effect here.
    #[error("{}", lines.join("; "))]
    Unmet {
        /// One line for each option, with its place, and what to do.
        lines: Vec<String>,
    },
    /// Every user of this machine can change a file or a folder from which root is to take orders.
    #[error(
        "every user can change {} (mode {mode:o}), and this runs as root: look at what is in it, and chmod o-w it",
        path.display()
    )]
    OpenToAll {
        /// The file or the folder.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// Somebody else can change a file or a folder that says what the master takes for true of minions.
    #[error(
        "others can change {}, which says what this master takes for true of minions: look at what is in it, chown it to \
         root or to the user that runs this, and chmod o-w it",
        path.display()
    )]
    ChangeableByOthers {
        /// The file or the folder.
        path: PathBuf,
    },
    /// A path to what the master takes for true of minions leads over a link into a folder that somebody else can change.
    #[error(
        "{}, which says what this master takes for true of minions, is a link into {}, which others can change: put what it \
         leads to in the place of the link, or into a folder that only root and the user that runs this can change",
        link.display(), folder.display()
    )]
    LinkIntoChangeable {
        /// The path with the link.
        link: PathBuf,
        /// The folder that it leads into.
        folder: PathBuf,
    },
    /// What `minions.d` assigns to minions cannot be used; with its place.
    #[error(transparent)]
    Assignments(#[from] AssignmentError),
    /// The file `minion_id` holds no id.
    #[error(
        "cannot take the id from {}: {why}; correct or remove the file, or give the minion an `id` in its configuration",
        path.display()
    )]
    IdFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The files have several mistakes.
    #[error("{} mistakes: {}", mistakes.len(), listed(mistakes))]
    Several {
        /// The mistakes, each with its place.
        mistakes: Vec<ConfigError>,
    },
    /// A file has a mistake.
    #[error("{}:{line}:{column}: {message}", path.display())]
    At {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// The mistake, and how to correct it.
        message: String,
    },
}

/// Returns the first of several mistakes, and how many more there are.
fn listed(mistakes: &[ConfigError]) -> String {
    let shown = mistakes.iter().take(MAX_LISTED).map(ConfigError::to_string);
    let mut lines: Vec<String> = shown.collect();
    match mistakes.len().saturating_sub(MAX_LISTED) {
        0 => {}
        more => lines.push(format!("and {more} more")),
    }
    lines.join("; ")
}

impl ConfigError {
    /// Returns one error for all mistakes of a configuration, ordered by file and line; none when there are none.
    pub(crate) fn of_all(mut mistakes: Vec<Self>) -> Option<Self> {
        mistakes.sort_by_key(|mistake| match mistake {
            Self::At {
                path, line, column, ..
            } => Some((path.clone(), *line, *column)),
            _ => None,
        });
        match mistakes.len() {
            0 | 1 => mistakes.pop(),
            _ => Some(Self::Several { mistakes }),
        }
    }

    pub(crate) fn at(path: impl Into<PathBuf>, error: YamlError) -> Self {
        Self::At {
            path: path.into(),
            line: error.line,
            column: error.column,
            message: error.message,
        }
    }
}
