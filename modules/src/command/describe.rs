//! What `saline-exec` is told of a command, and what an operator is told when it does not start.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use saline_exec::{Description, Environment, Folder, LaunchError, Launcher, Step};

use super::{Command, CommandError};

impl Command {
    /// Describes the command.
    pub(super) fn describe(&self, launcher: &Launcher) -> Result<Description, CommandError> {
        if self.argv.is_empty() {
            return Err(CommandError::Empty);
        }
        let argv: Result<Vec<CString>, _> = self
            .argv
            .iter()
            .map(|word| CString::new(word.as_str()))
            .collect();
        let argv = argv.map_err(|error| self.impossible(error.into()))?;
        let (mut description, mut environment) = launcher.describe(argv);
        if let Some(user) = &self.user {
            launcher.run_as(user, &mut description, &mut environment)?;
        }
        if let Some(group) = &self.group {
            launcher.in_group(group, &mut description)?;
        }
        if self.clean_environment {
            environment = Environment::default();
        }
        for (name, value) in &self.environment {
            match value {
                Some(value) => environment.set(name, value),
                None => environment.remove(name),
            }
        }
        description.environment = environment.into_strings()?;
        if let Some(folder) = &self.folder {
            let folder = CString::new(folder.as_os_str().as_bytes());
            description.folder =
                Folder::Given(folder.map_err(|error| self.impossible(error.into()))?);
        }
        description.umask = self.umask;
        description.ends_with_starter = !self.background;
        Ok(description)
    }

    /// Names what `saline-exec` could not do by what the operator asked for.
    pub(super) fn not_launched(&self, error: LaunchError) -> CommandError {
        match (error, &self.folder) {
            (
                LaunchError::Step {
                    step: Step::Program,
                    source,
                },
                _,
            ) => self.impossible(source),
            (
                LaunchError::Step {
                    step: Step::Folder,
                    source,
                },
                Some(folder),
            ) => CommandError::Folder {
                folder: folder.clone(),
                source,
            },
            (error, _) => CommandError::Launch(error),
        }
    }

    fn impossible(&self, source: io::Error) -> CommandError {
        CommandError::Start {
            program: self.argv.first().cloned().unwrap_or_default(),
            source,
        }
    }
}
