//! The functions that hand files in at the master.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use saline_functions::{Failure, function};
use saline_messages::{FileRefusal, FileReply, FileRequest, Part, TransferDigest, TransferId};
use saline_targeting::Glob;

use super::target::{Destination, open};
use crate::JobContext;
use crate::pending_answer::wrong_answer;

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
///     `True` hands nothing in, and only tells whether the master would take the file.
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
    let to = upload_path.unwrap_or_else(|| from.display().to_string());
    let to = to.trim_start_matches('/');
    match test {
        true => would_be_taken(job, from, to)?,
        false => push_one(job, from, to)?,
    }
    if remove_source && !test {
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
///     `True` hands nothing in, and only tells whether the master would take the files.
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
        let to = to.join(below).display().to_string();
        match test {
            true => would_be_taken(job, &file, &to)?,
            false => push_one(job, &file, &to)?,
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

/// Asks the master for what would follow the last byte of a file. It takes nothing then, and refuses what it would refuse otherwise.
fn would_be_taken(job: &JobContext<'_>, from: &Path, to: &str) -> Result<(), Failure> {
    let found = open(from)?.metadata();
    // It would take an empty file at once.
    let total = found
        .map_err(|why| failed("read", from, &why))?
        .len()
        .max(1);
    let part = Part {
        transfer: TransferDigest::default().id(),
        total,
        offset: total,
        bytes: Vec::new().into(),
    };
    hand_in(job, from, to, part).map(drop)
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
            bytes: bytes.into(),
        };
        let received = hand_in(job, from, to, part)?;
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

/// Hands a part of a file in. Returns how many bytes of the file the master has.
fn hand_in(job: &JobContext<'_>, from: &Path, to: &str, part: Part) -> Result<u64, Failure> {
    let total = part.total;
    let request = FileRequest::Push {
        path: to.to_owned(),
        part,
    };
    match job.ask_or_refused(&request)? {
        FileReply::Received(received) => Ok(received),
        FileReply::Refused(FileRefusal::TooLarge) => {
            let why = format!(
                "it has {total} bytes, which is more than the master takes: raise file_recv_max_size in its configuration"
            );
            Err(failed("hand in", from, &why))
        }
        FileReply::Refused(FileRefusal::BadPath) => {
            let why = format!("upload_path {to:?}: {}", FileRefusal::BadPath);
            Err(failed("hand in", from, &why))
        }
        FileReply::Refused(why) => Err(failed("hand in", from, &why)),
        _ => Err(failed("hand in", from, &wrong_answer())),
    }
}

fn failed(done: &str, path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Execution(format!("cannot {done} {}: {why}", path.display()))
}
