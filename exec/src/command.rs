//! Between fork and exec: a process becomes the command.
//!
//! Everything that needs memory is made before the fork.
#![allow(
    unsafe_code,
    reason = "fork, exec and the default of signals have no safe function"
)]

use std::ffi::{CStr, CString, c_char};
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Rlimit, Uid};

use crate::end::Failure;
use crate::streams::Streams;
use crate::{Description, Folder, Step};

/// The exit code of a process that did not become the command; nobody sees it.
const NOT_EXECUTED: i32 = 125;

/// Where programs are searched for when the command has no `PATH`, as `execvp(3)` does it.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// A command that can be started: its description in the form that the system takes.
pub(crate) struct Command<'a> {
    description: &'a Description,
    streams: Streams,
    /// The paths at which the program may be.
    candidates: Vec<CString>,
    argv: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    groups: Vec<Gid>,
}

impl<'a> Command<'a> {
    pub(crate) fn new(description: &'a Description, streams: Streams) -> Result<Self, Failure> {
        let program = description.argv.first();
        let program = program.ok_or_else(|| Failure::new(Step::Program, libc::ENOENT))?;
        let groups = description.user.iter().flat_map(|user| &user.groups);
        Ok(Self {
            description,
            streams,
            candidates: candidates(program, &description.environment),
            argv: pointers(&description.argv),
            environment: pointers(&description.environment),
            groups: groups.map(|&group| Gid::from_raw(group)).collect(),
        })
    }

    /// Starts the command, and waits until its program is executed.
    pub(crate) fn start(self) -> Result<Pid, Failure> {
        let (mut failures, report) = io::pipe().map_err(|error| Failure::of(Step::Fork, &error))?;
        // SAFETY: what the child does until it executes a program needs no lock and no memory.
        let forked = unsafe { libc::fork() };
        let child = match forked {
            0 => self.become_command(report),
            pid => Pid::from_raw(pid).filter(|_| pid > 0),
        };
        let child = child.ok_or_else(|| Failure::of(Step::Fork, &io::Error::last_os_error()))?;
        drop(report);
        let mut message = [0; MESSAGE];
        match failures.read_exact(&mut message) {
            // Closed by the execution of the program.
            Err(_) => Ok(child),
            Ok(()) => {
                let _ =
                    rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
                Err(Failure::from_bytes(&message))
            }
        }
    }

    /// Becomes the command, or tells the reason why not, and ends.
    fn become_command(&self, mut report: PipeWriter) -> ! {
        let failure = match self.prepare() {
            Ok(()) => self.execute(),
            Err(failure) => failure,
        };
        let mut message = [0; MESSAGE];
        failure.to_bytes(&mut message);
        let _ = report.write_all(&message);
        // SAFETY: ends this process without anything else.
        unsafe { libc::_exit(NOT_EXECUTED) }
    }

    fn prepare(&self) -> Result<(), Failure> {
        let Description {
            folder,
            user,
            umask,
            limits,
            cgroup,
            ..
        } = self.description;
        default_signals();
        // Also a process group. In the session of the daemon, a command of another user could type into its terminal.
        rustix::process::setsid().map_err(at(Step::Session))?;
        if let Some(cgroup) = cgroup {
            enter_cgroup(cgroup).map_err(at(Step::Cgroup))?;
        }
        for limit in limits {
            let (current, maximum) = (limit.soft, limit.hard);
            let rlimit = Rlimit { current, maximum };
            rustix::process::setrlimit(limit.resource.into(), rlimit)
                .map_err(at(Step::Limit(limit.resource)))?;
        }
        if let Some(umask) = umask {
            rustix::process::umask(Mode::from_raw_mode(*umask));
        }
        if let Some(user) = user {
            // The user last: afterwards nothing of it is allowed.
            let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
            rustix::thread::set_thread_groups(&self.groups)
                .and_then(|()| rustix::thread::set_thread_res_gid(gid, gid, gid))
                .and_then(|()| rustix::thread::set_thread_res_uid(uid, uid, uid))
                .map_err(at(Step::User))?;
        }
        match folder {
            Folder::Inherited => Ok(()),
            Folder::Given(folder) => rustix::process::chdir(folder),
            Folder::Preferred(folder) => {
                rustix::process::chdir(folder).or_else(|_| rustix::process::chdir(c"/"))
            }
        }
        .map_err(at(Step::Folder))?;
        rustix::stdio::dup2_stdin(self.streams.input.as_fd())
            .and_then(|()| rustix::stdio::dup2_stdout(self.streams.output.as_fd()))
            .and_then(|()| rustix::stdio::dup2_stderr(self.streams.error.as_fd()))
            .map_err(at(Step::Streams))
    }

    /// Executes the program; returns only if that fails.
    fn execute(&self) -> Failure {
        let mut error = libc::ENOENT;
        for path in &self.candidates {
            // SAFETY: strings of the description, and lists that end with a null pointer.
            unsafe { libc::execve(path.as_ptr(), self.argv.as_ptr(), self.environment.as_ptr()) };
            match io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)
            {
                libc::ENOENT | libc::ENOTDIR => {}
                // Another folder may have one that can be executed.
                libc::EACCES => error = libc::EACCES,
                other => return Failure::new(Step::Program, other),
            }
        }
        Failure::new(Step::Program, error)
    }
}

/// Returns the paths at which a program may be: itself if it has a slash, otherwise in each folder of `PATH`.
fn candidates(program: &CStr, environment: &[CString]) -> Vec<CString> {
    let name = program.to_bytes();
    if name.contains(&b'/') || name.is_empty() {
        return vec![program.to_owned()];
    }
    let mut paths = environment
        .iter()
        .filter_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
    let folders = paths.next().unwrap_or(DEFAULT_PATH).split(|&b| b == b':');
    let joined = folders.map(|folder| match folder {
        [] => name.to_vec(),
        _ => [folder, b"/", name].concat(),
    });
    // None of its parts has a null byte.
    joined.filter_map(|path| CString::new(path).ok()).collect()
}

/// Returns the strings as the system takes them, with a null pointer after the last.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    let strings = strings.iter().map(|string| string.as_ptr());
    strings.chain([std::ptr::null()]).collect()
}

/// Gives every signal its default meaning, and blocks none: both are inherited over an execution.
pub(crate) fn default_signals() {
    /// The bytes of the kernel's set of signals.
    const SET: usize = 8;
    // What the kernel takes for the default meaning, and for the empty set.
    let zeros = [0u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel reads a structure of at most so many bytes. libc's function leaves out the two
        // signals that its threads use, which an ancestor may have ignored. No handler of this process matters
        // any more, and the two signals that have no other meaning are left alone by the kernel.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, zeros.as_ptr(), 0, SET);
        }
    }
    // SAFETY: as above.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            zeros.as_ptr(),
            0,
            SET,
        );
    }
}

/// Moves this process to the cgroup in a folder.
fn enter_cgroup(folder: &CStr) -> Result<(), Errno> {
    let open = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, open, Mode::empty())?;
    let open = OFlags::WRONLY | OFlags::CLOEXEC;
    let processes = rustix::fs::openat(folder, c"cgroup.procs", open, Mode::empty())?;
    // 0 stands for the process that writes.
    rustix::io::write(processes, b"0").map(drop)
}

fn at(step: Step) -> impl FnOnce(Errno) -> Failure {
    move |error| Failure::new(step, error.raw_os_error())
}

/// The bytes of a failure on its way from the child, more than its encoding has.
const MESSAGE: usize = 16;

impl Failure {
    fn to_bytes(self, message: &mut [u8; MESSAGE]) {
        // It fits: a step has two bytes at most, a number five.
        let _ = postcard::to_slice(&self, message);
    }

    fn from_bytes(message: &[u8; MESSAGE]) -> Self {
        postcard::take_from_bytes(message)
            .map_or(Failure::new(Step::Program, libc::EIO), |(failure, _)| {
                failure
            })
    }
}
