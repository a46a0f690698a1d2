//! Commands that outlived a killed minion. The next start ends them, so that a job that is reported
//! as interrupted does not go on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process_group};
use saline_protocol::private_files;

const FOLDER: &str = "commands";

/// A note of a running process group; removed when dropped.
#[derive(Debug)]
pub struct Noted(PathBuf);

/// Notes that the group led by `pid` runs.
///
/// # Errors
/// When the file cannot be written; the command goes on all the same.
pub fn note(cache_dir: &Path, pid: u32) -> io::Result<Noted> {
    let folder = cache_dir.join(FOLDER);
    private_files::create_folder(&folder)?;
    let path = folder.join(pid.to_string());
    let mark = mark(pid).ok_or(io::ErrorKind::NotFound)?;
    private_files::write(&path, mark.as_bytes())?;
    Ok(Noted(path))
}

impl Drop for Noted {
    fn drop(&mut self) {
        // A note that stays names a process that has ended, which the next start detects.
        let _ = fs::remove_file(&self.0);
    }
}

/// Ends every noted group that is still led by the same process.
pub fn end_all(cache_dir: &Path) {
    let Ok(entries) = fs::read_dir(cache_dir.join(FOLDER)) else {
        return;
    };
    for entry in entries.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let noted = fs::read_to_string(entry.path()).ok();
        if let Some(pid) = pid
            && noted.is_some()
            && mark(pid) == noted
            && let Some(group) = Pid::from_raw(i32::try_from(pid).unwrap_or_default())
        {
            tracing::warn!("ending a command that an earlier minion left behind: process {pid}");
            if let Err(error) = kill_process_group(group, Signal::KILL) {
                tracing::warn!("process {pid} was not ended: {error}");
            }
        }
        let _ = fs::remove_file(entry.path());
    }
}

/// Returns a mark that distinguishes a process from a later one with the same number: the boot, and
/// the time of its start.
fn mark(pid: u32) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold any bytes; the start time is the 20th field after it.
    let began = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{} {began}", boot.trim()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    use super::*;

    fn child() -> Child {
        Command::new("sleep")
            .arg("600")
            .process_group(0)
            .spawn()
            .unwrap()
    }

    #[test]
    fn only_what_was_noted_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (mut left, mut other) = (child(), child());
        std::mem::forget(note(folder.path(), left.id()).unwrap());
        drop(note(folder.path(), other.id()).unwrap());
        // The number of another process.
        let path = folder.path().join(FOLDER).join(other.id().to_string());
        fs::write(&path, "another boot 1").unwrap();
        end_all(folder.path());
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        assert!(!path.exists());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
