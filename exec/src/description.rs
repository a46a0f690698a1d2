//! The description of a command: all that differs from one to the next.

use std::ffi::CString;

use serde::{Deserialize, Serialize};

use crate::User;

/// The description of a command.
///
/// Whatever it leaves out is the same for every command: standard streams and no other descriptor, a
/// process group of its own, default signals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The program and its arguments. A program without a slash is searched for in the `PATH` of the command.
    pub argv: Vec<CString>,
    /// The whole environment, as `NAME=value`.
    pub environment: Vec<CString>,
    /// The working folder.
    pub folder: Folder,
    /// The user; the daemon's own by default.
    pub user: Option<User>,
    /// The umask; the daemon's own by default.
    pub umask: Option<u32>,
    /// The resource limits that differ from the daemon's own.
    pub limits: Vec<Limit>,
    /// The folder of a cgroup that the command is moved to.
    pub cgroup: Option<CString>,
    /// Whether `saline-exec` ends as soon as the command has started: nobody learns of the command's end.
    pub background: bool,
    /// Whether `saline-exec` ends the command when the daemon, or the other program that started it, ends first: with
    /// SIGTERM to its process group, and half a second later with SIGKILL.
    pub ends_with_starter: bool,
}

/// A working folder. It is entered as the user of the command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Folder {
    /// That of the daemon.
    #[default]
    Inherited,
    /// This one, or the command is not started.
    Given(CString),
    /// This one, or `/` if the user cannot enter it.
    Preferred(CString),
}

/// A limit of a resource, in the resource's unit (see `getrlimit(2)`); none stands for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The resource.
    pub resource: Resource,
    /// The limit that holds.
    pub soft: Option<u64>,
    /// The most that the command may raise the limit to.
    pub hard: Option<u64>,
}

/// A resource that can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// The address space, in bytes.
    AddressSpace,
    /// The core file, in bytes.
    CoreFile,
    /// The CPU time, in seconds.
    CpuTime,
    /// A file that the command writes, in bytes.
    FileSize,
    /// The descriptors that are open at a time.
    OpenFiles,
    /// The processes of the command's user.
    Processes,
    /// The stack, in bytes.
    Stack,
}

impl From<Resource> for rustix::process::Resource {
    fn from(resource: Resource) -> Self {
        match resource {
            Resource::AddressSpace => Self::As,
            Resource::CoreFile => Self::Core,
            Resource::CpuTime => Self::Cpu,
            Resource::FileSize => Self::Fsize,
            Resource::OpenFiles => Self::Nofile,
            Resource::Processes => Self::Nproc,
            Resource::Stack => Self::Stack,
        }
    }
}
