//! Where the programs of Saline are.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of Saline.
#[derive(Debug, Clone)]
pub enum Programs {
    /// Each is a file in this folder.
    Folder(PathBuf),
    /// One file is all of them: it does the work of the name under which it is started.
    File(PathBuf),
}

impl Programs {
    /// Returns the programs that were built with `program`, in its folder.
    pub fn beside(program: impl AsRef<Path>) -> Self {
        let folder = program.as_ref().parent();
        Self::Folder(folder.map(Path::to_owned).unwrap_or_default())
    }

    /// Returns the program that runs, for one that does the work of all.
    ///
    /// # Errors
    /// When the system does not tell its path.
    pub fn this() -> io::Result<Self> {
        std::env::current_exe().map(Self::File)
    }

    /// Copies a program, by `cp`. Had this process opened the copy for writing, then a program that another test started at that
    /// moment would have the descriptor too, and the system runs no file that is open for writing.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn copy(program: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let copied = Command::new("cp")
            .arg("--preserve=mode")
            .arg(program.as_ref())
            .arg(to.as_ref())
            .status()?;
        match copied.success() {
            true => Ok(()),
            false => Err(io::Error::other("cp failed")),
        }
    }

    /// Returns a command that starts the program `name`, without arguments.
    pub fn command(&self, name: &str) -> Command {
        match self {
            Self::Folder(folder) => Command::new(folder.join(name)),
            Self::File(file) => {
                let mut command = Command::new(file);
                command.arg0(name);
                command
            }
        }
    }
}
