//! What is wrong with a configuration, in one line that says where.

use std::path::PathBuf;

use crate::yaml::YamlError;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The folder that should hold the files is not there.
    #[error("there is no configuration folder {}; -c DIR names another", path.display())]
    NoFolder {
        /// Which.
        path: PathBuf,
    },
    /// A file that is there cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in a file is wrong.
    #[error("{}:{line}:{column}: {message}", path.display())]
    At {
        /// In which file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// From 1.
        column: u64,
        /// What, and what to do.
        message: String,
    },
}

impl ConfigError {
    pub(crate) fn at(path: impl Into<PathBuf>, error: YamlError) -> Self {
        Self::At {
            path: path.into(),
            line: error.line,
            column: error.column,
            message: error.message,
        }
    }
}
