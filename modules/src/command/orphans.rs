//! Commands that outlived a killed minion. The next start ends them, so that a job that is reported
//! as interrupted does not go on. A note names the process that started the command, so that the commands
//! of a `saline-call` that runs are left alone.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process_group};

const FOLDER: &str = "commands";

/// The largest part of a note that is read, in bytes: an id of a boot and a number.
const MAX_NOTE: u64 = 256;

/// A note of a running process group; removed when dropped.
#[derive(Debug)]
pub struct Noted(PathBuf);

/// Notes that the group led by `pid` runs.
///
/// # Errors
/// When the file cannot be written; the command goes on all the same.
pub fn note(cache_dir: &Path, pid: u32) -> io::Result<Noted> {
    let folder = cache_dir.join(FOLDER);
    saline_private_files::create_folder(&folder)?;
    let path = folder.join(pid.to_string());
    saline_private_files::write(&path, text(pid, std::process::id())?.as_bytes())?;
    Ok(Noted(path))
}

impl Drop for Noted {
    fn drop(&mut self) {
        // A note that stays names a process that has ended, which the next start detects.
        let _ = fs::remove_file(&self.0);
    }
}

/// Ends every noted group that is still led by the same process. Notes that somebody else could have written are
/// left alone: they would have the minion end any process.
pub fn end_all(cache_dir: &Path) {
    let folder = cache_dir.join(FOLDER);
    if !folder.exists() {
        return;
    }
    let entries = saline_private_files::create_folder(&folder).and_then(|()| fs::read_dir(&folder));
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(
                "commands that an earlier minion left behind are not ended: {}: {error}",
                folder.display()
            );
            return;
        }
    };
    for entry in entries.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let noted = match read(&entry.path()) {
            Ok(noted) => noted,
            Err(error) => {
                tracing::warn!(
                    "ignoring {}, which does not name a command: {error}",
                    entry.path().display()
                );
                String::new()
            }
        };
        let (command, starter) = noted.split_once('\n').unwrap_or((noted.as_str(), ""));
        if is_alive(starter) {
            continue;
        }
        if let Some(pid) = pid
            && mark(pid).as_deref() == Some(command)
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

/// Returns the note of a command: its mark, and the number and the mark of the process that started it.
fn text(command: u32, starter: u32) -> io::Result<String> {
    match (mark(command), mark(starter)) {
        (Some(marked), Some(by)) => Ok(format!("{marked}\n{starter} {by}")),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Whether the process that started a command runs, and is another one than this.
fn is_alive(starter: &str) -> bool {
    let Some((pid, marked)) = starter.split_once(' ') else {
        return false;
    };
    let is_it = |pid| mark(pid).as_deref() == Some(marked) && !is_zombie(pid);
    pid.parse()
        .is_ok_and(|pid| pid != std::process::id() && is_it(pid))
}

/// Whether a process has ended and its parent has not asked how: in a container without an init that may take long.
fn is_zombie(pid: u32) -> bool {
    let stat = stat(pid).unwrap_or_default();
    stat.first().is_some_and(|state| state == "Z")
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    saline_private_files::open(path, saline_private_files::options().read(true))?
        .take(MAX_NOTE)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Returns a mark that distinguishes a process from a later one with the same number: the boot, and
/// the time of its start.
fn mark(pid: u32) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = stat(pid)?;
    let began = stat.get(19)?;
    Some(format!("{} {began}", boot.trim()))
}

/// Returns the fields of a process in `/proc` from its state on; the 20th of them is the time of its start.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses before these may hold any bytes.
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some(fields.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
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
    fn what_others_could_have_noted_is_left_alone() {
        let cache = tempfile::tempdir().unwrap();
        let mut victim = child();
        std::mem::forget(note(cache.path(), victim.id()).unwrap());
        let folder = cache.path().join(FOLDER);
        let path = folder.join(victim.id().to_string());
        let set_mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(&folder, 0o777);
        end_all(cache.path());
        assert!(victim.try_wait().unwrap().is_none(), "a folder of others");
        set_mode(&folder, 0o700);
        set_mode(&path, 0o666);
        end_all(cache.path());
        assert!(victim.try_wait().unwrap().is_none(), "a note of others");
        let elsewhere = cache.path().join("elsewhere");
        fs::write(&elsewhere, mark(victim.id()).unwrap()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        end_all(cache.path());
        assert!(victim.try_wait().unwrap().is_none(), "a link");
        victim.kill().unwrap();
        victim.wait().unwrap();
    }

    #[test]
    fn the_command_of_a_starter_that_nobody_has_reaped_is_ended() {
        use rustix::process::{WaitId, WaitIdOptions, waitid};

        let folder = tempfile::tempdir().unwrap();
        let mut starter = child();
        let mut command = child();
        let noted = text(command.id(), starter.id()).unwrap();
        saline_private_files::create_folder(&folder.path().join(FOLDER)).unwrap();
        let path = folder.path().join(FOLDER).join(command.id().to_string());
        saline_private_files::write(&path, noted.as_bytes()).unwrap();
        starter.kill().unwrap();
        let pid = Pid::from_child(&starter);
        waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .unwrap();
        end_all(folder.path());
        assert_eq!(command.wait().unwrap().signal(), Some(9));
        starter.wait().unwrap();
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
        // What another process started that runs.
        let mut called = child();
        let by = text(called.id(), other.id()).unwrap();
        let kept = folder.path().join(FOLDER).join(called.id().to_string());
        fs::write(&kept, by).unwrap();
        end_all(folder.path());
        assert!(called.try_wait().unwrap().is_none() && kept.exists());
        called.kill().unwrap();
        called.wait().unwrap();
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        assert!(!path.exists());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
