//! Functions about symbolic links.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, readlinkat, renameat, symlinkat, unlinkat};
use saline_data::Value;
use saline_functions::{Failure, function};

use super::answer::Answer;
use super::path::{AbsolutePath, failed};
use super::place::{Place, file_type};
use super::replacement::{sync_folder, temporary_name};
use crate::JobContext;

/// Returns where a link leads, as it is written in it.
fn target_of(place: &Place) -> Result<PathBuf, Failure> {
    let target = readlinkat(&place.folder, &place.name, Vec::new())
        .map_err(|why| failed("read the link", &place.path, why))?;
    Ok(std::ffi::OsString::from_vec(target.into_bytes()).into())
}

/// Creates a symbolic link. One that leads there already stays as it is.
///
/// src
///     The path that the link leads to, which need not exist. It may be relative to the folder of the link.
///
/// path
///     The absolute path of the link itself.
///
/// force
///     `True` replaces a link that leads elsewhere, and a file, in one step. A folder is never replaced.
///
/// test
///     `True` only tells what would change.
///
/// CLI Example:
///
///     saline '*' file.symlink /srv/app/releases/42 /srv/app/current force=True
#[function(changes)]
pub(super) fn symlink(
    _job: &JobContext<'_>,
    src: String,
    path: AbsolutePath,
    #[default(false)] force: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    if src.is_empty() || src.contains('\0') {
        return Err(Failure::Invocation(
            "src is the path that the link leads to".to_owned(),
        ));
    }
    let place = Place::of(&path)?;
    let why = |why| failed("create the link", &place.path, why);
    let existing = place.status()?.map(|status| file_type(&status));
    let old = match existing {
        Some(FileType::Symlink) => Some(target_of(&place)?),
        _ => None,
    };
    if old.as_deref() == Some(src.as_ref()) {
        return Ok(Answer::new(false, test).into_value());
    }
    let refused = |why: &str| Err(failed("create the link", &place.path, why));
    match existing {
        Some(FileType::Directory) => return refused("there is a folder, which is not replaced"),
        Some(FileType::Symlink) if !force => {
            return refused("there is a link that leads elsewhere (force=True replaces it)");
        }
        Some(_) if !force => return refused("there is a file (force=True replaces it)"),
        _ => {}
    }
    if !test {
        match existing {
            None => symlinkat(&src, &place.folder, &place.name).map_err(why)?,
            Some(_) => {
                let name = temporary_name();
                symlinkat(&src, &place.folder, &name).map_err(why)?;
                if let Err(error) = renameat(&place.folder, &name, &place.folder, &place.name) {
                    let _ = unlinkat(&place.folder, &name, AtFlags::empty());
                    return Err(why(error));
                }
            }
        }
        sync_folder(&place);
    }
    let mut answer = Answer::new(true, test);
    if let Some(old) = old {
        answer.add("old", old.display().to_string());
    }
    answer.add("new", src);
    Ok(answer.into_value())
}

/// Returns the path that a symbolic link leads to.
///
/// path
///     The absolute path of the link.
///
/// canonicalize
///     `True` returns the absolute path after every link on the way; all of it must exist.
///
/// CLI Example:
///
///     saline '*' file.readlink /etc/localtime
#[function]
pub(super) fn readlink(
    _job: &JobContext<'_>,
    path: AbsolutePath,
    #[default(false)] canonicalize: bool,
) -> Result<Value, Failure> {
    let place = Place::of(&path)?;
    match place.status()?.map(|status| file_type(&status)) {
        Some(FileType::Symlink) => {}
        Some(_) => return Err(failed("read the link", &path, "it is not a symbolic link")),
        None => return Err(failed("read the link", &path, "there is no such file")),
    }
    let target = match canonicalize {
        false => target_of(&place)?,
        true => std::fs::canonicalize(&path).map_err(|why| failed("follow", &path, why))?,
    };
    Ok(Value::from_output(target.into_os_string().into_vec()))
}

/// Returns whether a path is a symbolic link, wherever it leads.
///
/// CLI Example:
///
///     saline '*' file.is_link /etc/localtime
#[function]
pub(super) fn is_link(_job: &JobContext<'_>, path: AbsolutePath) -> Value {
    let found = rustix::fs::lstat(&path as &std::path::Path);
    Value::Bool(found.is_ok_and(|status| file_type(&status) == FileType::Symlink))
}
