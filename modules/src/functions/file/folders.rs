//! Functions that create folders.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, mkdirat};
use rustix::io::Errno;
use saline_data::Value;
use saline_functions::{Failure, function};

use super::answer::Answer;
use super::ownership::{Attributes, FileMode, Group, User};
use super::path::{AbsolutePath, failed};
use super::place::{Place, file_type};
use super::replacement::sync_folder;
use crate::JobContext;

/// The attributes of new folders.
struct New {
    user: Option<User>,
    group: Option<Group>,
    mode: Option<FileMode>,
}

/// Creates a folder and those above it that are missing.
///
/// dir_path
///     The absolute path.
///
/// user, group
///     Names or numbers: the owner of the folders that are created. One that exists stays as it is.
///
/// mode
///     An octal number: the mode of the folders that are created.
///
/// test
///     `True` only tells what would be created.
///
/// CLI Example:
///
///     saline '*' file.mkdir /srv/app/data user=app mode=0750
#[function(changes)]
pub(super) fn mkdir(
    _job: &JobContext<'_>,
    dir_path: AbsolutePath,
    user: Option<User>,
    group: Option<Group>,
    mode: Option<FileMode>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    create(&dir_path, &New { user, group, mode }, test)
}

/// Creates the folders above a path that are missing, so that a file can be put there. A path that ends in `/` is created
/// itself, too.
///
/// The other parameters are those of `file.mkdir`.
///
/// CLI Example:
///
///     saline '*' file.makedirs /srv/app/data/settings.yaml
#[function(changes)]
pub(super) fn makedirs(
    _job: &JobContext<'_>,
    path: AbsolutePath,
    user: Option<User>,
    group: Option<Group>,
    mode: Option<FileMode>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let folder = match path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        true => &path,
        false => path.parent().unwrap_or(&path),
    };
    create(folder, &New { user, group, mode }, test)
}

fn create(folder: &Path, new: &New, test: bool) -> Result<Value, Failure> {
    let mut missing: Vec<PathBuf> = Vec::new();
    for folder in folder.ancestors() {
        match rustix::fs::stat(folder) {
            Ok(status) if file_type(&status) == FileType::Directory => break,
            Ok(_) => return Err(failed("create", folder, "there is a file of this name")),
            Err(Errno::NOENT) => missing.push(folder.to_owned()),
            Err(error) => return Err(failed("look at", folder, error)),
        }
    }
    missing.reverse();
    if !test {
        for folder in &missing {
            create_one(folder, new)?;
        }
    }
    let mut answer = Answer::new(!missing.is_empty(), test);
    let shown = missing.iter().map(|folder| folder.display().to_string());
    answer.add("created", Value::texts(shown));
    Ok(answer.into_value())
}

fn create_one(folder: &Path, new: &New) -> Result<(), Failure> {
    let place = Place::of(folder)?;
    let why = |why| failed("create", folder, why);
    // Nobody else can use it before it is theirs.
    let is_plain = new.user.is_none() && new.group.is_none() && new.mode.is_none();
    let mode = if is_plain { 0o777 } else { 0o700 };
    mkdirat(&place.folder, &place.name, Mode::from_raw_mode(mode)).map_err(why)?;
    let created = Attributes::of(&place)?;
    if file_type(&created.status) != FileType::Directory {
        return Err(failed(
            "create",
            folder,
            "somebody put another file there meanwhile",
        ));
    }
    if new.user.is_some() || new.group.is_some() {
        let (user, group) = (new.user.map(|user| user.0), new.group.map(|group| group.0));
        created.set_owner(user, group).map_err(why)?;
    }
    if !is_plain {
        let mode = new.mode.map_or(0o755, |mode| mode.0);
        created.set_mode(mode).map_err(why)?;
    }
    sync_folder(&place);
    Ok(())
}
