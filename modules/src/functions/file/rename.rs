//! `file.rename`.

use rustix::fs::{FileType, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;
use saline_data::Value;
use saline_functions::{Failure, function};

use super::answer::Answer;
use super::backups::{self, Backup};
use super::path::{AbsolutePath, failed};
use super::place::{LARGEST_FILE, Place, file_type};
use super::replacement::sync_folder;
use crate::JobContext;

/// Renames a file, a folder or a symbolic link (not what it leads to), in one step. A file in the place of the new name is
/// replaced; a folder is not.
///
/// src
///     The absolute path.
///
/// dst
///     The new absolute path, on the same file system.
///
/// backup
///     `minion` keeps a file that is replaced on the minion, under `cachedir` (`file.list_backups`).
///
/// test
///     `True` only tells what would change.
///
/// CLI Example:
///
///     saline '*' file.rename /etc/app.conf.new /etc/app.conf backup=minion
#[function(changes)]
pub(super) fn rename(
    job: &JobContext<'_>,
    src: AbsolutePath,
    dst: AbsolutePath,
    #[default(None)] backup: Backup,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let (from, to) = (Place::of(&src)?, Place::of(&dst)?);
    let why = |why: &dyn std::fmt::Display| failed("rename", &src, why);
    if from.status()?.is_none() {
        return Err(why(&"there is no such file"));
    }
    let existing = to.status()?;
    let is_same = from.canonical_path()? == to.canonical_path()?;
    if existing.is_some_and(|status| file_type(&status) == FileType::Directory) && !is_same {
        return Err(why(&format!("{dst} is a folder, which is not replaced")));
    }
    let mut answer = Answer::new(!is_same, test);
    answer.add("replaced", Value::Bool(existing.is_some() && !is_same));
    if test || is_same {
        return Ok(answer.into_value());
    }
    if backup == Backup::Minion
        && existing.is_some_and(|status| file_type(&status) == FileType::RegularFile)
    {
        let mut existing = to.open_existing()?;
        let bytes = existing.read(&to.path, LARGEST_FILE)?;
        let kept = backups::keep(&job.host.cache_dir, &to, &existing, &bytes)?;
        answer.add("backup", kept.display().to_string());
    }
    let (folder, name) = (&from.folder, &from.name);
    let renamed = match existing {
        Some(_) => renameat(folder, name, &to.folder, &to.name),
        // What appears meanwhile is not lost.
        None => match renameat_with(folder, name, &to.folder, &to.name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => renameat(folder, name, &to.folder, &to.name),
            renamed => renamed,
        },
    };
    renamed.map_err(|error| match error {
        Errno::XDEV => why(&format!(
            "{dst} is on another file system: file.copy it, and file.remove it here"
        )),
        error => why(&error),
    })?;
    sync_folder(&from);
    sync_folder(&to);
    Ok(answer.into_value())
}
