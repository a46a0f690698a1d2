//! The functions that hand files in at the master.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use saline_functions::{Failure, function};
use saline_messages::{FileReply, FileRequest, Part, TransferDigest, TransferId};
use saline_targeting::Glob;

use super::target::{Destination, open};
use crate::JobContext;

/// How often a file is started over that changes while it is handed in.
const ATTEMPTS: usize = 5;

/// The most files of one `cp.push_dir`.
const MOST_FILES: usize = 10_000;

/// Folders that nest deeper are refused.
const MAX_DEPTH: usize = 64;

/// Hands a file of the minion in at the master, which stores it in `cachedir/minions/ID/files` if it has `file_recv: True`.
///
/// path
///     The absolute path of the file.
///
/// upload_path
///     The path below the minion's folder on the master; that of the file if it is not given.
///
/// remove_source
///     `True` removes the file of the minion when the master has it.
///
/// test
///     `True` hands nothing in.
///
/// Returns `True`.
///
/// CLI Example:
///
///     saline '*' cp.push /var/log/app.log
///     saline '*' cp.push /var/log/app.log upload_path=logs/today.log
#[function(changes, in_minion)]
pub(super) fn push(
    job: &JobContext<'_>,
    path: Destination,
    upload_path: Option<String>,
    #[default(false)] remove_source: bool,
    #[default(false)] test: bool,
) -> Result<bool, Failure> {
    let from = path.as_folder();
    if test {
        return open(from).map(|_| true);
    }
    let to = upload_path.unwrap_or_else(|| from.display().to_string());
    push_one(job, from, to.trim_start_matches('/'))?;
    if remove_source {
        std::fs::remove_file(from).map_err(|why| failed("remove", from, &why))?;
    }
    Ok(true)
}

/// Hands all files of a folder in, as `cp.push` does one. Links in it are not followed.
///
/// path
///     The absolute path of the folder.
///
/// glob
///     Only files whose names match it.
///
/// upload_path
///     The path of the folder below the minion's folder on the master; that of the folder if it is not given.
///
/// test
///     `True` hands nothing in.
///
/// Returns `True`.
///
/// CLI Example:
///
///     saline '*' cp.push_dir /var/log/app glob='*.log'
#[function(changes, in_minion)]
pub(super) fn push_dir(
    job: &JobContext<'_>,
    path: Destination,
    glob: Option<String>,
    upload_path: Option<String>,
    #[default(false)] test: bool,
) -> Result<bool, Failure> {
    let glob = match glob {
        Some(text) => Some(
            Glob::compile(&text)
                .map_err(|error| Failure::Invocation(format!("{text:?} is {error}")))?,
        ),
        None => None,
    };
    let folder = path.as_folder();
    let to = upload_path.unwrap_or_else(|| folder.display().to_string());
    let to = Path::new(to.trim_start_matches('/'));
    let mut files = Vec::new();
    collect(folder, 0, &mut files)?;
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str());
        if !glob
            .as_ref()
            .is_none_or(|glob| name.is_some_and(|name| glob.matches(name)))
        {
            continue;
        }
        // Each was found below the folder.
        let below = file.strip_prefix(folder).unwrap_or(&file);
        if !test {
            push_one(job, &file, &to.join(below).display().to_string())?;
        }
    }
    Ok(true)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if depth > MAX_DEPTH {
        return Err(failed("hand in", folder, &"folders nest too deep"));
    }
    for found in std::fs::read_dir(folder).map_err(|why| failed("read", folder, &why))? {
        let found = found.map_err(|why| failed("read", folder, &why))?;
        let kind = found
            .file_type()
            .map_err(|why| failed("read", folder, &why))?;
        if kind.is_dir() {
            collect(&found.path(), depth + 1, files)?;
        } else if kind.is_file() {
            files.push(found.path());
        }
        if files.len() > MOST_FILES {
            let why = format!("it has more than {MOST_FILES} files");
            return Err(failed("hand in", folder, &why));
        }
    }
    Ok(())
}

/// Hands one file in.
fn push_one(job: &JobContext<'_>, from: &Path, to: &str) -> Result<(), Failure> {
    let mut file = open(from)?;
    for _ in 0..ATTEMPTS {
        let (transfer, total) = hash(&mut file).map_err(|why| failed("read", from, &why))?;
        if send(job, &file, from, to, transfer, total)? {
            return Ok(());
        }
    }
    Err(failed("hand in", from, &"it changes all the time"))
}

fn hash(file: &mut File) -> std::io::Result<(TransferId, u64)> {
    file.seek(SeekFrom::Start(0))?;
    let (mut digest, mut total) = (TransferDigest::default(), 0);
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match std::io::Read::read(file, &mut buffer)? {
            0 => return Ok((digest.id(), total)),
            read => {
                digest.update(&buffer[..read]);
                total += read as u64;
            }
        }
    }
}

/// Sends the parts of a file, from where the master has it. Returns whether the master has it; otherwise the file is another
/// one by now.
fn send(
    job: &JobContext<'_>,
    file: &File,
    from: &Path,
    to: &str,
    transfer: TransferId,
    total: u64,
) -> Result<bool, Failure> {
    let mut offset = 0;
    let mut restarts = 0;
    loop {
        let most = job.push_part_size()?;
        let length = usize::try_from(total - offset).map_or(most, |left| left.min(most));
        let mut bytes = vec![0; length];
        if file.read_exact_at(&mut bytes, offset).is_err() {
            return Ok(false);
        }
        let part = Part {
            transfer,
            total,
            offset,
            bytes,
        };
        let request = FileRequest::Push {
            path: to.to_owned(),
            part,
        };
        let FileReply::Received(received) = job.ask_about_files(&request)? else {
            return Err(failed(
                "hand in",
                from,
                &"the master gave an answer to another question",
            ));
        };
        if received == total {
            return Ok(true);
        }
        // Other bytes than were announced: the file was written meanwhile.
        restarts += usize::from(received <= offset);
        if restarts > ATTEMPTS || received > total {
            return Ok(false);
        }
        offset = received;
    }
}

fn failed(done: &str, path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Execution(format!("cannot {done} {}: {why}", path.display()))
}
