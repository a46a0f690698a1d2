//! The note that this machine is to be restarted or turned off: a function writes it when it plans that, and the minion reads
//! it when it stops, to tell its master. It is a file, since the two may be different processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use saline_messages::PlannedEnd;

/// The name of the file, in the minion's `cachedir`.
const FILE: &str = "planned_end";

/// How long before the planned time the machine may begin to stop.
const EARLY: Duration = Duration::from_secs(60);

/// How long after the planned time a minion that stops does so because of the plan.
const LATE: Duration = Duration::from_secs(600);

fn path(cache_dir: &Path) -> PathBuf {
    cache_dir.join(FILE)
}

/// Returns the identity of this start of the machine's kernel, so that a note of an earlier start counts no more.
fn boot() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(boot.trim().to_owned())
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}

/// Notes what the machine does at a time.
///
/// # Errors
/// When the file cannot be written.
pub fn note(cache_dir: &Path, end: PlannedEnd, at: SystemTime) -> io::Result<()> {
    let text = format!("{} {} {}\n", boot()?, end.word(), seconds(at));
    saline_private_files::create_folder(cache_dir)?;
    saline_private_files::write(&path(cache_dir), text.as_bytes())
}

/// Forgets the note, since the plan was cancelled.
///
/// # Errors
/// When there is a file that cannot be removed.
pub fn forget(cache_dir: &Path) -> io::Result<()> {
    match fs::remove_file(path(cache_dir)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns what the machine is planned to do about now; none when nothing is planned, or nothing can be read.
pub fn due(cache_dir: &Path, now: SystemTime) -> Option<PlannedEnd> {
    let text = fs::read_to_string(path(cache_dir)).ok()?;
    let mut words = text.split_whitespace();
    let (noted, end, at) = (words.next()?, words.next()?, words.next()?);
    let at: u64 = at.parse().ok()?;
    let now = seconds(now);
    let is_now = now.saturating_add(EARLY.as_secs()) >= at
        && now <= at.saturating_add(LATE.as_secs())
        && noted == boot().ok()?;
    [PlannedEnd::Reboot, PlannedEnd::PowerOff]
        .into_iter()
        .find(|planned| is_now && planned.word() == end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_about_its_time_and_in_its_boot() {
        let folder = tempfile::tempdir().unwrap();
        let folder = &folder.path().join("cache");
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        assert_eq!(due(folder, now), None);
        let at = now + Duration::from_secs(300);
        note(folder, PlannedEnd::Reboot, at).unwrap();
        // The minion is restarted before that by somebody else.
        assert_eq!(due(folder, now), None);
        for (seconds, expected) in [
            (239, None),
            (240, Some(PlannedEnd::Reboot)),
            (900, Some(PlannedEnd::Reboot)),
            (901, None),
        ] {
            let then = now + Duration::from_secs(seconds);
            assert_eq!(due(folder, then), expected, "{seconds}");
        }
        note(folder, PlannedEnd::PowerOff, now).unwrap();
        assert_eq!(due(folder, now), Some(PlannedEnd::PowerOff));
        // The next start of the machine reads the note of the last one.
        let text = fs::read_to_string(path(folder)).unwrap();
        let other = text.replace(&boot().unwrap(), "00000000-0000-0000-0000-000000000000");
        fs::write(path(folder), other).unwrap();
        assert_eq!(due(folder, now), None);
        for damaged in ["", "x", "a b c", "\u{fffd} reboot 99999999999999999999"] {
            fs::write(path(folder), damaged).unwrap();
            assert_eq!(due(folder, now), None, "{damaged}");
        }
        forget(folder).unwrap();
        forget(folder).unwrap();
        assert!(!path(folder).exists());
    }
}
