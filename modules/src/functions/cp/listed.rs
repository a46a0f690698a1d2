//! The functions that tell what the master has.

use saline_data::Value;
use saline_functions::{Failure, function};
use saline_messages::{FileKind, FileReply, FileRequest};

use super::target::open;
use crate::JobContext;
use crate::master_files::{SaltUrl, list_names, look};

/// Returns the names of the environments that the minion may read.
///
/// CLI Example:
///
///     saline '*' cp.envs
#[function(in_minion)]
pub(super) fn envs(job: &JobContext<'_>) -> Result<Value, Failure> {
    match job.ask_about_files(&FileRequest::Environments)? {
        FileReply::Environments(names) => Ok(Value::texts(names.iter().map(String::as_str))),
        _ => Ok(Value::List(Vec::new())),
    }
}

/// Returns the paths of the files of an environment.
///
/// saltenv
///     The environment; `base` if it is not given.
///
/// prefix
///     A folder: only what is below it.
///
/// CLI Example:
///
///     saline '*' cp.list_master
///     saline '*' cp.list_master prefix=nginx
#[function(in_minion)]
pub(super) fn list_master(
    job: &JobContext<'_>,
    #[default("base")] saltenv: String,
    #[default("")] prefix: String,
) -> Result<Value, Failure> {
    list_names(job, &saltenv, &prefix, |entry| entry.kind == FileKind::File)
}

/// Returns the paths of the folders of an environment, as `cp.list_master` those of files.
///
/// CLI Example:
///
///     saline '*' cp.list_master_dirs
#[function(in_minion)]
pub(super) fn list_master_dirs(
    job: &JobContext<'_>,
    #[default("base")] saltenv: String,
    #[default("")] prefix: String,
) -> Result<Value, Failure> {
    list_names(job, &saltenv, &prefix, |entry| entry.kind != FileKind::File)
}

/// Returns the paths of an environment to which links lead, as `cp.list_master` those of files.
///
/// CLI Example:
///
///     saline '*' cp.list_master_symlinks
#[function(in_minion)]
pub(super) fn list_master_symlinks(
    job: &JobContext<'_>,
    #[default("base")] saltenv: String,
    #[default("")] prefix: String,
) -> Result<Value, Failure> {
    list_names(job, &saltenv, &prefix, |entry| entry.is_link)
}

/// Returns the hash of a file of the master, or of one of the minion when the path is absolute: `{hash_type: sha256, hsum: ...}`.
///
/// CLI Example:
///
///     saline '*' cp.hash_file salt://packages/app.deb
///     saline '*' cp.hash_file /etc/hosts
#[function(in_minion)]
pub(super) fn hash_file(
    job: &JobContext<'_>,
    path: String,
    saltenv: Option<String>,
) -> Result<Value, Failure> {
    let hash = if path.starts_with('/') {
        let mut digest = saline_messages::TransferDigest::default();
        let failed = |why| Failure::Execution(format!("cannot read {path}: {why}"));
        let mut file = open(path.as_ref())?;
        let mut buffer = vec![0; 256 * 1024];
        loop {
            match std::io::Read::read(&mut file, &mut buffer).map_err(failed)? {
                0 => break digest.id(),
                read => digest.update(&buffer[..read]),
            }
        }
    } else {
        let url = SaltUrl::parse(&path).map_err(Failure::Invocation)?;
        look(job, &url.place(saltenv.as_deref()))?.transfer
    };
    Ok(Value::map([
        ("hash_type", Value::from("sha256")),
        ("hsum", Value::from(format!("{hash:?}"))),
    ]))
}

/// Returns the mode of a file of the master as a text of octal digits, or as a number with `octal=False`.
///
/// CLI Example:
///
///     saline '*' cp.stat_file salt://tools/report
#[function(in_minion)]
pub(super) fn stat_file(
    job: &JobContext<'_>,
    path: SaltUrl,
    saltenv: Option<String>,
    #[default(true)] octal: bool,
) -> Result<Value, Failure> {
    let mode = look(job, &path.place(saltenv.as_deref()))?.mode;
    Ok(match octal {
        true => Value::from(format!("{mode:04o}")),
        false => Value::from(i64::from(mode)),
    })
}
