//! The places of the programs that daemons start.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::LaunchError;

/// The name of the program.
pub(crate) const NAME: &str = "saline-exec";

/// Where the program `saline-exec` is, and others that are started as it is: beside the running program, or in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program(ProgramSource);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum ProgramSource {
    Beside,
    Contained(Vec<OsString>),
}

impl Program {
    /// Returns the place of programs in the folder of the running program.
    pub fn beside_this_one() -> Self {
        Self(ProgramSource::Beside)
    }

    /// Returns the running program itself, which must call [`main`](crate::main) when it is started under
    /// the name `saline-exec` with these arguments, and the mains of other programs under their names.
    pub fn this_one(arguments: &[&str]) -> Self {
        Self(ProgramSource::Contained(
            arguments.iter().map(OsString::from).collect(),
        ))
    }

    /// Whether the programs are contained in the running one.
    pub fn is_contained(&self) -> bool {
        matches!(self.0, ProgramSource::Contained(_))
    }

    /// Finds out whether the program is there, so that a daemon can tell at its start that it is not.
    ///
    /// # Errors
    /// When it is missing.
    pub fn check(&self) -> Result<(), LaunchError> {
        self.check_named(NAME)
    }

    /// Finds out the same of the program `name`.
    ///
    /// # Errors
    /// When it is missing.
    pub fn check_named(&self, name: &str) -> Result<(), LaunchError> {
        match self.path(name) {
            Ok(path) if !path.exists() => Err(LaunchError::Missing(path)),
            _ => Ok(()),
        }
    }

    pub(crate) fn path(&self, name: &str) -> io::Result<PathBuf> {
        match &self.0 {
            // The folder is right also after an upgrade has replaced the running program.
            ProgramSource::Beside => Ok(std::env::current_exe()?.with_file_name(name)),
            // Not by its path: a build may replace the file.
            ProgramSource::Contained(_) => Ok(PathBuf::from("/proc/self/exe")),
        }
    }

    pub(crate) fn arguments(&self) -> &[OsString] {
        match &self.0 {
            ProgramSource::Beside => &[],
            ProgramSource::Contained(arguments) => arguments,
        }
    }
}
