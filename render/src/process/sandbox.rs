//! The system calls that `saline-render` may make once it takes orders.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Reading and writing what is open, memory, threads of this process, clocks, and the end. Nothing opens, connects,
/// starts or signals anything.
const ALLOWED: [libc::c_long; 27] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    // To end itself by a signal, as an abort does.
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rseq,
];

/// Lets this thread, and those that it starts, make only the allowed calls: others fail with `EPERM`.
///
/// # Errors
/// When the kernel cannot do that.
pub(super) fn enter() -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("the kernel does not limit the system calls of saline-render: {error}")
    };
    let architecture =
        TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failed(&error))?;
    let mut rules: BTreeMap<i64, Vec<_>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    // This process alone may be signalled.
    let own = u64::from(std::process::id());
    let is_own = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, own)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| failed(&error))?;
    rules.insert(libc::SYS_tgkill, vec![is_own]);
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, architecture)
        .map_err(|error| failed(&error))?;
    let program = BpfProgram::try_from(filter).map_err(|error| failed(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_be_opened_connected_or_started() {
        // A filter is its thread's alone.
        let thread = std::thread::spawn(|| {
            enter().unwrap();
            let denied = |error: std::io::Error| error.raw_os_error() == Some(libc::EPERM);
            assert!(denied(std::fs::File::open("/etc/passwd").unwrap_err()));
            assert!(denied(std::fs::write("/tmp/x", "x").unwrap_err()));
            let connected = std::os::unix::net::UnixStream::connect("/x");
            assert!(denied(connected.unwrap_err()));
            let bound = std::net::TcpListener::bind("127.0.0.1:0");
            assert!(denied(bound.unwrap_err()));
            // What it works with is still there.
            let large = vec![1u8; 8 << 20];
            let mut random = [0; 16];
            getrandom::fill(&mut random).unwrap();
            assert_eq!(
                large.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
                8 << 20
            );
        });
        thread.join().unwrap();
    }

    #[test]
    #[allow(
        unsafe_code,
        reason = "the system call has no safe wrapper, and sends no signal here"
    )]
    fn this_process_alone_can_be_signalled() {
        let others = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        let thread = std::thread::spawn(move || {
            enter().unwrap();
            // Signal 0 is not sent: the kernel only says whether it could be.
            // SAFETY: the call has numbers alone as arguments.
            let signal = |process: i32, thread: i32| unsafe {
                libc::syscall(libc::SYS_tgkill, process, thread, 0)
            };
            let own = std::process::id().cast_signed();
            let this_thread = rustix::thread::gettid().as_raw_nonzero().get();
            assert_eq!(signal(own, this_thread), 0);
            assert_eq!(signal(others, others), -1);
            let error = std::io::Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
        });
        thread.join().unwrap();
    }
}
