//! How a daemon starts its commands.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::end::{Failure, Report};
use crate::frame::{self, FrameError};
use crate::program::NAME;
use crate::user::{self, Account};
use crate::{
    Description, Environment, Folder, LaunchError, Process, Program, Step, Streams, User, UserError,
};

/// Starts the commands of a daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Launcher {
    program: Program,
    /// The names of further variables that commands get.
    passed: Vec<String>,
}

impl Launcher {
    /// Creates a launcher. Commands get the usual variables of the daemon's environment, and those that are
    /// named in `passed`, where a trailing `*` stands for any text.
    pub fn new(program: Program, passed: Vec<String>) -> Self {
        Self { program, passed }
    }

    /// Returns the place of `saline-exec` and of what is started as it is.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns a description that runs `argv` as the user of this process, in its home, and the environment that
    /// commands get, which the caller may change before it becomes part of the description.
    pub fn describe(&self, argv: Vec<CString>) -> (Description, Environment) {
        let environment = Environment::passed(std::env::vars_os(), &self.passed);
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let description = Description {
            argv,
            folder: home_folder(home.or_else(Account::own_home)),
            ..Description::default()
        };
        (description, environment)
    }

    /// Has the command run as the user `name`: with its groups, in its home, and with the variables that say who it
    /// is.
    ///
    /// # Errors
    /// When there is no such user, and when this process may not become it.
    pub fn run_as(
        &self,
        name: &str,
        description: &mut Description,
        environment: &mut Environment,
    ) -> Result<(), UserError> {
        let account = Account::named(name)?;
        description.user = account.to_become()?;
        account.describe(environment);
        description.folder = home_folder(Some(account.home));
        Ok(())
    }

    /// Has the command run in the group `name`, beside the groups of its user.
    ///
    /// # Errors
    /// When there is no such group, and when this process may not enter it.
    pub fn in_group(&self, name: &str, description: &mut Description) -> Result<(), UserError> {
        let gid = user::enterable_group(name)?;
        let user = match description.user.take() {
            Some(user) => user,
            None => User::of_this_process()?,
        };
        description.user = Some(User { gid, ..user });
        Ok(())
    }

    /// Starts a command, and waits until its program is executed.
    ///
    /// # Errors
    /// When it is not executed.
    pub fn start(
        &self,
        description: &Description,
        streams: Streams,
    ) -> Result<Process, LaunchError> {
        let (pid, control, supervisor) = self.launch(description, streams)?;
        Ok(Process::new(pid, control, supervisor))
    }

    /// Starts a command, and lets go of it. Returns its pid, which leads a process group.
    ///
    /// # Errors
    /// When it is not executed.
    pub fn start_in_background(
        &self,
        mut description: Description,
        streams: Streams,
    ) -> Result<Pid, LaunchError> {
        description.background = true;
        let (pid, _, mut supervisor) = self.launch(&description, streams)?;
        supervisor.wait().map_err(LaunchError::Lost)?;
        Ok(pid)
    }

    fn launch(
        &self,
        description: &Description,
        streams: Streams,
    ) -> Result<(Pid, UnixStream, Child), LaunchError> {
        let frame = frame::encode(description).map_err(|source| LaunchError::Step {
            step: Step::Description,
            source,
        })?;
        let (control, other) = UnixStream::pair().map_err(LaunchError::Lost)?;
        let mut supervisor = self.spawn_exec(other)?;
        let reported = streams
            .send(&control, &frame)
            .map_err(FrameError::Read)
            .and_then(|()| frame::read(&control));
        let error = match reported {
            Ok(Report::Started { pid }) => {
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
                match pid {
                    Some(pid) => return Ok((pid, control, supervisor)),
                    None => LaunchError::Lost(io::ErrorKind::InvalidData.into()),
                }
            }
            Ok(Report::Failed(Failure { step, errno })) => LaunchError::Step {
                step,
                source: io::Error::from_raw_os_error(errno),
            },
            Ok(Report::Ended(_)) | Err(FrameError::Malformed) => {
                LaunchError::Lost(io::ErrorKind::InvalidData.into())
            }
            Err(FrameError::Version(_)) => LaunchError::Step {
                step: Step::Version,
                source: io::Error::from_raw_os_error(libc::EPROTO),
            },
            Err(FrameError::Read(error)) => LaunchError::Lost(error),
        };
        // `saline-exec` ends when nobody listens to it.
        drop(control);
        let _ = supervisor.wait();
        Err(error)
    }

    /// Starts the program `name` of Saline, which is where `saline-exec` is. It inherits the environment of this process,
    /// and these descriptors as 0 and 1; it begins with [`detach`](crate::detach()).
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_program(
        &self,
        name: &str,
        stdin: OwnedFd,
        stdout: OwnedFd,
    ) -> Result<Child, LaunchError> {
        self.spawn(name, |command| {
            command.stdin(stdin).stdout(stdout);
        })
    }

    /// Starts `saline-exec`, in a process group of its own: what a terminal sends to that of the daemon is the
    /// daemon's to pass on.
    fn spawn_exec(&self, control: UnixStream) -> Result<Child, LaunchError> {
        self.spawn(NAME, |command| {
            command
                .process_group(0)
                .stdin(OwnedFd::from(control))
                .stdout(Stdio::null());
        })
    }

    fn spawn(&self, name: &str, set: impl FnOnce(&mut Command)) -> Result<Child, LaunchError> {
        let path = self
            .program
            .path(name)
            .map_err(|source| LaunchError::Program {
                path: name.into(),
                source,
            })?;
        let mut command = Command::new(&path);
        command
            .arg0(name)
            .args(self.program.arguments())
            .stderr(Stdio::null());
        set(&mut command);
        command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => LaunchError::Missing(path),
            _ => LaunchError::Program { path, source },
        })
    }
}

fn home_folder(home: Option<OsString>) -> Folder {
    let home = home.and_then(user::path);
    Folder::Preferred(home.unwrap_or_else(|| c"/".to_owned()))
}
