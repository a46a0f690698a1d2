//! The functions that put files of the master at a path of the minion.

use std::io::Read;
use std::path::Path;

use saline_data::Value;
use saline_functions::{Failure, function};
use saline_messages::{FileKind, FilePlace};

use super::super::file::deliver;
use super::target::{Destination, open, shown};
use crate::JobContext;
use crate::master_files::{FileCache, SaltUrl, fetch, list, look, read};

/// Puts a file of the master at a path of the minion, in one step: whoever opens the path sees the old file or the new. It
/// comes through the minion's cache, and travels only when it is not there; what has arrived stays when the minion, the
/// master or the job ends, and the next call goes on with it.
///
/// path
///     The file: `salt://PATH`, or `salt://PATH?saltenv=NAME`.
///
/// dest
///     The absolute path. In a folder, or with a slash at the end, the file keeps its name. A file that is there keeps its owner
///     and mode; a new one gets the mode that it has on the master.
///
/// saltenv
///     The environment; `base` if it is not given.
///
/// makedirs
///     `True` makes missing folders.
///
/// test
///     `True` only tells what would change.
///
/// Returns the path; with `test=True`, whether the file would change.
///
/// CLI Example:
///
///     saline '*' cp.get_file salt://nginx/app.conf /etc/nginx/conf.d/app.conf
///     saline '*' cp.get_file salt://tools/report /opt/tools/ makedirs=True
#[function(changes, in_minion)]
pub(super) fn get_file(
    job: &JobContext<'_>,
    path: SaltUrl,
    dest: Destination,
    saltenv: Option<String>,
    #[default(false)] makedirs: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let place = path.place(saltenv.as_deref());
    let target = dest.of_file(path.name()?);
    if test {
        return would_change(job, &place, &target);
    }
    let cache = FileCache::open(&job.host.cache_dir)?;
    put(job, &cache, &place, &target, makedirs)?;
    Ok(shown(&target))
}

fn would_change(job: &JobContext<'_>, place: &FilePlace, target: &Path) -> Result<Value, Failure> {
    let seen = look(job, place)?;
    let is_same = match std::fs::metadata(target) {
        Ok(found) if found.is_file() && found.len() == seen.size => {
            let mut digest = saline_messages::TransferDigest::default();
            let mut file = open(target)?;
            let mut buffer = vec![0; 256 * 1024];
            loop {
                match file.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => digest.update(&buffer[..read]),
                    Err(why) => {
                        let why = format!("cannot read {}: {why}", target.display());
                        return Err(Failure::Execution(why));
                    }
                }
            }
            digest.id() == seen.transfer
        }
        _ => false,
    };
    Ok(Value::map([("changed", Value::Bool(!is_same))]))
}

/// Puts a file of the master at a path.
fn put(
    job: &JobContext<'_>,
    cache: &FileCache,
    place: &FilePlace,
    target: &Path,
    makedirs: bool,
) -> Result<(), Failure> {
    let (cached, seen) = fetch(job, cache, place)?;
    deliver(&mut open(&cached)?, target, seen.mode, makedirs)
}

/// Puts a folder of the master into a folder of the minion, where it keeps its name: `cp.get_dir salt://a/b /dest` makes
/// `/dest/b`. Files that are there and not on the master stay. Missing folders are made.
///
/// path
///     The folder: `salt://PATH`.
///
/// dest
///     The absolute path of the folder that gets it.
///
/// saltenv
///     The environment; `base` if it is not given.
///
/// test
///     `True` only returns the paths.
///
/// Returns the paths of the files.
///
/// CLI Example:
///
///     saline '*' cp.get_dir salt://nginx /etc
#[function(changes, in_minion)]
pub(super) fn get_dir(
    job: &JobContext<'_>,
    path: SaltUrl,
    dest: Destination,
    saltenv: Option<String>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let place = path.place(saltenv.as_deref());
    let above = path
        .path()
        .split_name()
        .map_or(0, |(above, _)| above.as_str().len());
    let cache = FileCache::open(&job.host.cache_dir)?;
    let mut written = Vec::new();
    let is_there = list(job, &place.environment, &place.path, |entry| {
        let target = dest
            .as_folder()
            .join(entry.path[above..].trim_start_matches('/'));
        match entry.kind {
            FileKind::File => {
                if !test {
                    let file = FilePlace {
                        environment: place.environment.clone(),
                        path: entry.path,
                    };
                    put(job, &cache, &file, &target, true)?;
                }
                written.push(shown(&target));
            }
            FileKind::Folder | FileKind::EmptyFolder if !test => {
                std::fs::create_dir_all(&target).map_err(|why| {
                    Failure::Execution(format!("cannot make {}: {why}", target.display()))
                })?;
            }
            FileKind::Folder | FileKind::EmptyFolder => {}
        }
        Ok(())
    })?;
    match is_there {
        true => Ok(Value::List(written)),
        false => Err(no_folder(&place)),
    }
}

/// Returns the failure of a folder that the master does not have.
pub(super) fn no_folder(place: &FilePlace) -> Failure {
    let FilePlace { environment, path } = place;
    Failure::Execution(format!(
        "the environment {environment} has no folder {path:?}"
    ))
}

/// Returns the text of a file of the master, as far as a return can hold it.
///
/// path
///     The file: `salt://PATH`.
///
/// saltenv
///     The environment; `base` if it is not given.
///
/// CLI Example:
///
///     saline '*' cp.get_file_str salt://motd
#[function(in_minion)]
pub(super) fn get_file_str(
    job: &JobContext<'_>,
    path: SaltUrl,
    saltenv: Option<String>,
) -> Result<String, Failure> {
    text(job, &path.place(saltenv.as_deref()))
}

fn text(job: &JobContext<'_>, place: &FilePlace) -> Result<String, Failure> {
    String::from_utf8(read(job, place, job.host.max_payload())?)
        .map_err(|_| Failure::Execution("the file is not a text in UTF-8".to_owned()))
}

/// Gets a file by its URL. `salt://` is as `cp.get_file`; `file://` is a file of the minion. `http://`, `https://` and `ftp://`
/// are not supported: fetch these with a command.
///
/// path
///     The URL.
///
/// dest
///     The absolute path where the file is put. Without it the text of the file is returned.
///
/// saltenv
///     The environment of a `salt://` URL; `base` if it is not given.
///
/// makedirs
///     `True` makes missing folders.
///
/// test
///     `True` only tells whether the file would change.
///
/// CLI Example:
///
///     saline '*' cp.get_url salt://motd /etc/motd
///     saline '*' cp.get_url file:///etc/motd /tmp/motd
#[function(changes, in_minion)]
pub(super) fn get_url(
    job: &JobContext<'_>,
    path: String,
    dest: Option<Destination>,
    saltenv: Option<String>,
    #[default(false)] makedirs: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    if let Some(local) = path.strip_prefix("file://") {
        let from = Path::new(local);
        let mut file = open(from)?;
        let Some(dest) = dest else {
            let mut text = String::new();
            let most = job.host.max_payload() as u64;
            let read = file.take(most).read_to_string(&mut text);
            read.map_err(|why| Failure::Execution(format!("cannot read {local}: {why}")))?;
            return Ok(Value::from(text));
        };
        let name = from
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("file");
        let target = dest.of_file(name);
        if !test {
            deliver(&mut file, &target, 0o644, makedirs)?;
        }
        return Ok(shown(&target));
    }
    match path.split_once("://") {
        None | Some(("salt", _)) => {}
        Some((scheme, _)) => {
            return Err(Failure::Invocation(format!(
                "{scheme}:// is not supported: fetch it with a command, for example \
                 `cmd.run 'curl -fsSLo FILE URL'`"
            )));
        }
    }
    let url = SaltUrl::parse(&path).map_err(Failure::Invocation)?;
    let place = url.place(saltenv.as_deref());
    let Some(dest) = dest else {
        return text(job, &place).map(Value::from);
    };
    let target = dest.of_file(url.name()?);
    if test {
        return would_change(job, &place, &target);
    }
    let cache = FileCache::open(&job.host.cache_dir)?;
    put(job, &cache, &place, &target, makedirs)?;
    Ok(shown(&target))
}
