//! Frees a program that a daemon starts from the descriptors and signals that it inherited.

use std::io;

use crate::command::default_signals;

/// Makes the calling process independent of the daemon that started it: a session of its own, which is a process group
/// without a terminal, no descriptor above 2, default signals but for SIGPIPE, which is ignored as in every program in
/// Rust, and a working folder that keeps no file system from being unmounted. To be called before anything else, by a program that [`Launcher::start_program`](crate::Launcher::start_program) starts.
///
/// # Errors
/// When the process leads a process group already: it was not started that way.
#[allow(
    unsafe_code,
    reason = "the standard library does not set what a signal does"
)]
pub fn detach() -> io::Result<()> {
    close_inherited();
    rustix::process::setsid()?;
    default_signals();
    // SAFETY: no handler of this process is replaced, there is none.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    rustix::process::chdir("/")?;
    Ok(())
}

/// Closes every descriptor above 2.
#[allow(
    unsafe_code,
    reason = "no safe function closes descriptors that it does not own"
)]
pub(crate) fn close_inherited() {
    const FIRST: u32 = 3;
    // SAFETY: they were inherited, and no object of this process stands for one of them.
    if unsafe { libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, 0) } == 0 {
        return;
    }
    // Before Linux 5.9.
    let open = std::fs::read_dir("/proc/self/fd").map(|folder| {
        let names = folder.flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
        numbers.collect::<Vec<_>>()
    });
    for number in open.unwrap_or_default() {
        if number >= FIRST {
            // SAFETY: as above; that of the folder is closed already, which is an error without effect.
            unsafe { libc::close(number.cast_signed()) };
        }
    }
}
