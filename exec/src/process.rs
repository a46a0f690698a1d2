//! A command that runs, as its daemon sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;

use rustix::net::{RecvFlags, recv};
use rustix::process::Pid;

use crate::End;
use crate::end::Report;
use crate::frame::{self, FrameError};

/// A command that runs under `saline-exec`. Its descriptor becomes readable when the command has ended.
///
/// The pid stays the command's until this is dropped, also after the command has ended. Dropping this waits for
/// the end of the command: end it before.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    /// None only while this is dropped.
    control: Option<UnixStream>,
    pub(crate) supervisor: Child,
}

impl Process {
    pub(crate) fn new(pid: Pid, control: UnixStream, supervisor: Child) -> Self {
        Self {
            pid,
            control: Some(control),
            supervisor,
        }
    }

    /// Returns the pid of the command, which leads a process group.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the end of the command, if it has ended. Once it was returned, it is not returned again.
    ///
    /// # Errors
    /// When `saline-exec` was killed: nobody knows how the command ends then, and its pid is not reserved.
    pub fn try_wait(&self) -> io::Result<Option<End>> {
        let mut first = [0u8];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(self.control(), &mut first, flags) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(_) => self.wait().map(Some),
        }
    }

    /// Waits for the end of the command.
    ///
    /// # Errors
    /// When `saline-exec` was killed.
    pub fn wait(&self) -> io::Result<End> {
        match frame::read(self.control()) {
            Ok(Report::Ended(end)) => Ok(end),
            Ok(_) => Err(lost("saline-exec reported something else than an end")),
            Err(FrameError::Read(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(lost("saline-exec was killed"))
            }
            Err(FrameError::Read(error)) => Err(error),
            Err(error) => Err(lost(&format!("saline-exec reported an end: {error}"))),
        }
    }

    fn control(&self) -> &UnixStream {
        // Only drop takes it.
        self.control.as_ref().expect("the control of a process")
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control().as_fd()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // `saline-exec` reaps the command and ends when this is closed.
        drop(self.control.take());
        let _ = self.supervisor.wait();
    }
}

fn lost(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}
