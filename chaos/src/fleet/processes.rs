//! Starting this program under the names of its parts, and ending what was left behind.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use saline_testing::Programs;

use crate::plan::INSTANCE;

/// The variable with the folder of the run that a process belongs to.
pub(super) const ROOT: &str = "SALINE_CHAOS_ROOT";

/// Returns a command that runs this program as `name`.
pub(super) fn program(name: &str) -> Command {
    launcher().command(name)
}

/// Returns this program, under any name.
pub(super) fn launcher() -> Programs {
    // Not by its path: a build may replace the file while a run goes on.
    Programs::File("/proc/self/exe".into())
}

/// Kills every process of an instance: the daemon and all that its jobs started, also in other groups.
pub(crate) fn kill_instance(root: &Path, instance: &str) {
    kill_marked(&[(ROOT, root.as_os_str()), (INSTANCE, OsStr::new(instance))]);
}

/// Kills every process of a run.
pub(super) fn kill_all_below(root: &Path) {
    kill_marked(&[(ROOT, root.as_os_str())]);
}

/// Kills the processes whose environment has all of these variables. They carry them from their daemon,
/// whatever group or parent they have by now.
fn kill_marked(marks: &[(&str, &OsStr)]) {
    let marks: Vec<Vec<u8>> = marks
        .iter()
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    let own = std::process::id();
    // A second time for those that were started meanwhile.
    for _ in 0..2 {
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return;
        };
        let pids = entries.flatten().filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            (pid != own).then_some(pid)
        });
        for pid in pids {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let variables: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
            let marked = marks
                .iter()
                .all(|mark| variables.contains(&mark.as_slice()));
            let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let Some(pid) = raw.filter(|_| marked) {
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
