//! Puts a file that came from elsewhere at a path: `cp.get_file` and what is like it.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use saline_functions::Failure;

use super::path::failed;
use super::place::Place;
use super::replacement::Replacement;

/// Puts the contents of `from` at a path, in one step. What is there keeps its owner, its mode and its extended attributes;
/// a new file gets this mode. Missing folders are made with `makedirs`.
///
/// # Errors
/// When a folder is missing, or the file cannot be written; then what was there is as it was.
pub(in crate::functions) fn deliver(
    from: &mut File,
    path: &Path,
    mode: u32,
    makedirs: bool,
) -> Result<(), Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        match makedirs {
            true => std::fs::create_dir_all(folder).map_err(|why| failed("make", folder, why))?,
            false => {
                let why = "there is no such folder (makedirs=True makes it)";
                return Err(failed("write into", folder, why));
            }
        }
    }
    let place = Place::followed(path)?;
    let existing = place.open()?;
    let mut put = || -> io::Result<()> {
        let mut replacement = Replacement::create(&place, existing.is_some())?;
        io::copy(from, &mut replacement.file)?;
        match &existing {
            Some(existing) => replacement.like(&existing.file, &existing.status)?,
            None => fchmod(&replacement.file, Mode::from_raw_mode(mode & 0o7777))?,
        }
        replacement.place(existing.as_ref())
    };
    put().map_err(|why| failed("write", path, why))
}
