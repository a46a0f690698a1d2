//! Jobs that outlive their minions are ended with the fleet that they belong to.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Flock, FlockType, Pid, PidfdFlags, Signal, fcntl_getlk, pidfd_open, pidfd_send_signal,
};

/// How long a killed process may take to end.
const ENDS_WITHIN: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// Kills the process of every job that minions below `root` have begun and left running. Its commands end with it. To be
/// called when the minions have ended, and before their folders are removed.
pub fn end_jobs_below(root: &Path) {
    let Ok(instances) = fs::read_dir(root) else {
        return;
    };
    for instance in instances.flatten() {
        let jobs = instance.path().join("run/saline/minion/jobs");
        for job in fs::read_dir(jobs).into_iter().flatten().flatten() {
            // An error says that it has ended.
            let _ = end_job(&job.path().join("job"));
        }
    }
}

/// Kills the process that holds the lock on the record of its job.
fn end_job(record: &Path) -> io::Result<()> {
    let record = File::options().read(true).write(true).open(record)?;
    let Some(pid) = holder(&record)? else {
        return Ok(());
    };
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    // It still is the same process, not a later one with its number.
    if holder(&record)? == Some(pid) {
        pidfd_send_signal(&process, Signal::KILL)?;
        poll(
            &mut [PollFd::new(&process, PollFlags::IN)],
            Some(&ENDS_WITHIN),
        )?;
    }
    Ok(())
}

fn holder(record: &File) -> io::Result<Option<Pid>> {
    let wanted = Flock::from(FlockType::WriteLock);
    Ok(fcntl_getlk(record, &wanted)?.and_then(|held| held.pid))
}
