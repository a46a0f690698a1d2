//! The function that fetches the files of an upload: `saline-cp` calls it.

use std::path::{Path, PathBuf};

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mapping, Mismatch, Secret, function};
use saline_jailed_files::InnerPath;
use saline_messages::{FilePlace, MAX_UPLOADED_FILES, UPLOADS_ENVIRONMENT, UploadId};

use super::super::file::deliver;
use super::target::{Destination, open};
use crate::master_files::{FileCache, fetch};
use crate::{JobContext, Outcome};

/// The files of an upload, in the order of their numbers: the path of each below the destination, and its mode.
#[derive(Debug, Clone)]
pub(super) struct UploadedFiles(Vec<(InnerPath, u32)>);

impl FromValue for UploadedFiles {
    const TAKES: &'static str =
        "a mapping of relative paths to modes, such as '{app.conf: \"0644\"}'";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let mismatch = Mismatch::of::<Self>(&value);
        let files = Mapping::from_value(value)?;
        if files.len() > MAX_UPLOADED_FILES as usize {
            return Err(mismatch);
        }
        let read = files.into_iter().map(|(path, mode)| {
            let mode = mode
                .as_str()
                .and_then(|mode| u32::from_str_radix(mode, 8).ok());
            let mode = mode.filter(|mode| *mode <= 0o7777)?;
            Some((below(&path)?, mode))
        });
        read.collect::<Option<_>>().map(Self).ok_or(mismatch)
    }
}

/// Folders that are made below the destination.
#[derive(Debug, Clone)]
pub(super) struct Folders(Vec<InnerPath>);

impl FromValue for Folders {
    const TAKES: &'static str = "a list of relative paths";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let mismatch = Mismatch::of::<Self>(&value);
        let paths: Vec<String> = FromValue::from_value(value)?;
        let paths = paths.iter().map(|path| below(path));
        paths.collect::<Option<_>>().map(Self).ok_or(mismatch)
    }
}

/// Reads a path below the destination, which does not lead out of it.
fn below(text: &str) -> Option<InnerPath> {
    InnerPath::parse(text).ok().filter(|path| !path.is_root())
}

/// Puts files that `saline-cp` has handed to the master at a path of the minion, each in one step. Only the minions of the job get
/// them; the minion's cache does not keep them. Missing folders are made.
///
/// files
///     A mapping of the paths below the destination to the modes of new files. A file that is there keeps its owner and mode.
///
/// dest
///     The absolute path. In a folder, or with a slash at the end, each file keeps its path; otherwise it is the path of the one
///     file.
///
/// upload
///     The id of the upload at the master, which is secret.
///
/// folders
///     Paths of folders that are made below the destination.
///
/// test
///     `True` only tells the paths.
///
/// Returns a mapping of the path of each file to `True`, or to the reason why it was not written.
///
/// CLI Example:
///
///     saline '*' cp.recv '{app.conf: "0644"}' /etc/app.conf --secret upload=@/root/upload-id
///     saline-cp '*' app.conf /etc/app.conf
#[function(changes, in_minion)]
pub(super) fn recv(
    job: &JobContext<'_>,
    files: UploadedFiles,
    dest: Destination,
    upload: Secret<String>,
    folders: Option<Folders>,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    let upload = UploadId::parse(upload.reveal())
        .ok_or_else(|| Failure::Invocation("upload: it is not the id of an upload".to_owned()))?;
    let (mut returned, mut has_failed) = (Vec::new(), false);
    let fetched = Fetched {
        cache: FileCache::open(&job.host.cache_dir)?,
        upload,
    };
    for folder in folders.into_iter().flat_map(|folders| folders.0) {
        let path = dest.as_folder().join(folder.as_str());
        if !test && let Err(error) = std::fs::create_dir_all(&path) {
            let why = format!("cannot make it: {error}");
            returned.push((path.display().to_string(), Value::from(why)));
            has_failed = true;
        }
    }
    for (number, (path, mode)) in files.0.iter().enumerate() {
        let target = dest.of_file(path.as_str());
        let put = match test {
            true => Ok(()),
            false => fetched.put(job, number, &target, *mode),
        };
        let done = match put {
            Ok(()) => Value::Bool(true),
            Err(Failure::Execution(why)) => {
                has_failed = true;
                Value::from(why)
            }
            Err(failure) => return Err(failure),
        };
        returned.push((target.display().to_string(), done));
    }
    Ok(Outcome::new(Value::Map(returned), i64::from(has_failed)))
}

/// The files of an upload in the cache, which are removed when this is dropped.
struct Fetched {
    cache: FileCache,
    upload: UploadId,
}

impl Fetched {
    /// Brings a file into the cache and puts it at a path.
    fn put(
        &self,
        job: &JobContext<'_>,
        number: usize,
        target: &Path,
        mode: u32,
    ) -> Result<(), Failure> {
        let place = FilePlace {
            environment: UPLOADS_ENVIRONMENT.to_owned(),
            path: format!("{}/{number}", self.upload.to_text()),
        };
        let (cached, _): (PathBuf, _) = fetch(job, &self.cache, &place)?;
        let delivered = deliver(&mut open(&cached)?, target, mode, true);
        // Room for the next one.
        self.cache.forget(&place);
        delivered
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        self.cache.forget(&FilePlace {
            environment: UPLOADS_ENVIRONMENT.to_owned(),
            path: self.upload.to_text(),
        });
    }
}
