//! Brings a file of the master into the cache.

use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use saline_functions::Failure;
use saline_jailed_files::{InnerPath, NewFile};
use saline_messages::{FilePlace, FileReply, FileRequest, SeenFile, TransferDigest, TransferId};

use super::{FileCache, refused};
use crate::JobContext;
use crate::pending_answer::{PendingAnswer, wrong_answer};

/// The name under which a file is written until it is complete begins with this.
pub(super) const TEMPORARY: &str = ".saline-part-";

/// How often a file is started over that changes while it is sent, or whose bytes are not those that were announced.
const ATTEMPTS: usize = 20;

/// How many parts are asked for at a time: one travels while the one before is written.
const AHEAD: usize = 2;

/// How long a job waits before it looks again whether another one still fetches the same file.
const OTHER_FETCHES: Duration = Duration::from_millis(200);

/// Returns what a file of the master is now.
pub(crate) fn look(job: &JobContext<'_>, place: &FilePlace) -> Result<SeenFile, Failure> {
    match job.ask_about_files(&FileRequest::Look(place.clone()))? {
        FileReply::Seen(seen) => Ok(seen),
        _ => Err(wrong_answer()),
    }
}

/// Brings a file into the cache unless it is there, and returns its path there and what it is.
///
/// # Errors
/// When the master does not have it, refuses it or is away for long, and when it cannot be written.
pub(crate) fn fetch(
    job: &JobContext<'_>,
    cache: &FileCache,
    place: &FilePlace,
) -> Result<(PathBuf, SeenFile), Failure> {
    let inner = cache.inner(place)?;
    let mut unfinished: Option<TransferId> = None;
    for _ in 0..ATTEMPTS {
        let seen = look(job, place)?;
        if let Some(before) = unfinished.filter(|before| *before != seen.transfer) {
            tracing::info!(
                "salt://{}: the file has changed while it was sent, and is fetched again",
                place.path
            );
            discard(cache, &inner, before);
        }
        if cache.has(&inner, seen.size, seen.transfer) {
            return Ok((cache.path(&inner), seen));
        }
        match receive(job, cache, &inner, place, &seen)? {
            Received::Whole => return Ok((cache.path(&inner), seen)),
            Received::Changed => unfinished = Some(seen.transfer),
            Received::OtherBytes => {}
        }
    }
    Err(changes_all_the_time(place))
}

/// Brings a file into the cache unless it is there, and returns its content: the bytes whose hash the master has.
///
/// # Errors
/// As [`fetch`], and when the file has more than `most` bytes.
pub(crate) fn read(
    job: &JobContext<'_>,
    place: &FilePlace,
    most: usize,
) -> Result<Vec<u8>, Failure> {
    let cache = FileCache::open(&job.host.cache_dir)?;
    let inner = cache.inner(place)?;
    for _ in 0..ATTEMPTS {
        let size = look(job, place)?.size;
        if usize::try_from(size).map_or(true, |size| size > most) {
            return Err(Failure::Execution(format!(
                "salt://{} has {size} bytes, and at most {most} are read",
                place.path
            )));
        }
        let (_, seen) = fetch(job, &cache, place)?;
        // Another job may fetch a later version meanwhile.
        let bytes = cache.root().read(&inner, most);
        if let Some(bytes) = bytes
            .ok()
            .filter(|bytes| TransferId::of(bytes) == seen.transfer)
        {
            return Ok(bytes);
        }
    }
    Err(changes_all_the_time(place))
}

fn changes_all_the_time(place: &FilePlace) -> Failure {
    Failure::Execution(format!(
        "salt://{} changes all the time: it was begun {ATTEMPTS} times",
        place.path
    ))
}

/// The result of receiving a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Received {
    /// The file is in the cache.
    Whole,
    /// The master has another one, or has forgotten the hash of this one. What has arrived is kept.
    Changed,
    /// The bytes are not those that were announced. They are removed.
    OtherBytes,
}

fn temporary_name(transfer: TransferId) -> String {
    format!("{TEMPORARY}{transfer:?}")
}

/// Returns the path of what has arrived of a file.
fn temporary_path(inner: &InnerPath, transfer: TransferId) -> Option<InnerPath> {
    let (folder, _) = inner.split_name()?;
    let name = InnerPath::parse(&temporary_name(transfer)).ok()?;
    folder.join(&name).ok()
}

/// Whether the temporary name is still that of this file.
fn is_in_place(
    cache: &FileCache,
    inner: &InnerPath,
    new: &mut NewFile,
    transfer: TransferId,
) -> bool {
    let named = temporary_path(inner, transfer).and_then(|path| cache.file(&path));
    let named = named.map(|file| (file.version().device, file.version().inode));
    let own = new.file().metadata().ok();
    named.is_some() && named == own.map(|own| (own.dev(), own.ino()))
}

/// Removes what has arrived of a file that the master does not have any more. It is left if that fails.
fn discard(cache: &FileCache, inner: &InnerPath, transfer: TransferId) {
    if let Some(Err(error)) = temporary_path(inner, transfer).map(|path| cache.root().remove(&path))
    {
        tracing::debug!("a part of a file is left: {error}");
    }
}

/// Receives the bytes of a file.
fn receive(
    job: &JobContext<'_>,
    cache: &FileCache,
    inner: &InnerPath,
    place: &FilePlace,
    seen: &SeenFile,
) -> Result<Received, Failure> {
    let temporary = temporary_name(seen.transfer);
    let failed = |why: &dyn std::fmt::Display| {
        let path = cache.path(inner);
        Failure::Execution(format!("cannot write {}: {why}", path.display()))
    };
    // A folder of the cache that is a file of the master by now, and a file that is a folder.
    if matches!(cache.root().is_folder(inner), Ok(true)) {
        let removed = cache.root().remove_folder(inner);
        removed.map_err(|why| failed(&why))?;
    }
    let mut above = inner.split_name().map(|(folder, _)| folder);
    while let Some(folder) = above.filter(|folder| !folder.is_root()) {
        if cache.file(&folder).is_some() {
            let removed = cache.root().remove(&folder);
            removed.map_err(|why| failed(&why))?;
        }
        above = folder.split_name().map(|(folder, _)| folder);
    }
    let mut new = loop {
        let mut new = cache
            .root()
            .store(inner, &temporary)
            .map_err(|why| failed(&why))?;
        // Another job may fetch the same file.
        match flock(&*new.file(), FlockOperation::NonBlockingLockExclusive) {
            // It may have completed this one just before the lock was taken.
            Ok(()) if is_in_place(cache, inner, &mut new, seen.transfer) => break new,
            Ok(()) => continue,
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(failed(&error)),
        }
        job.wait(OTHER_FETCHES)?;
        if cache.has(inner, seen.size, seen.transfer) {
            return Ok(Received::Whole);
        }
    };
    match receive_into(job, &mut new, place, seen) {
        Ok(Received::Whole) => {
            // The cache is checked by its hash, and need not outlive a loss of power.
            new.complete(0o600, false).map_err(|why| failed(&why))?;
            Ok(Received::Whole)
        }
        Ok(Received::Changed) => Ok(Received::Changed),
        Ok(Received::OtherBytes) => {
            new.discard().map_err(|why| failed(&why))?;
            Ok(Received::OtherBytes)
        }
        Err(Stopped::Write(why)) => {
            // A full disk gets its room back.
            let _ = new.discard();
            Err(failed(&why))
        }
        // What has arrived is kept: a later job goes on with it.
        Err(Stopped::Asking(failure)) => Err(failure),
    }
}

enum Stopped {
    Write(std::io::Error),
    Asking(Failure),
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Asking(failure)
    }
}

/// Receives what is missing of a file.
fn receive_into(
    job: &JobContext<'_>,
    new: &mut NewFile,
    place: &FilePlace,
    seen: &SeenFile,
) -> Result<Received, Stopped> {
    let file = new.file();
    let mut digest = TransferDigest::default();
    let mut received = resume(file, &mut digest, seen.size)?;
    let mut asked = received;
    let mut pending: VecDeque<(FileRequest, u64, PendingAnswer<FileReply>)> = VecDeque::new();
    loop {
        while asked < seen.size && pending.len() < AHEAD {
            let bytes = job.master_files()?.part_size();
            let request = FileRequest::Part {
                place: place.clone(),
                transfer: seen.transfer,
                offset: asked,
                bytes,
            };
            pending.push_back((request.clone(), asked, job.send_about_files(request)?));
            asked = asked.saturating_add(u64::from(bytes)).min(seen.size);
        }
        let Some((request, offset, answer)) = pending.pop_front() else {
            break;
        };
        let part = match job.answer_or_again(answer, &request)? {
            FileReply::Part(part) => part,
            FileReply::Changed => return Ok(Received::Changed),
            FileReply::Refused(why) => return Err(refused(&request, why).into()),
            _ => return Err(wrong_answer().into()),
        };
        let is_next =
            part.offset == offset && part.transfer == seen.transfer && part.total == seen.size;
        if !is_next || part.bytes.is_empty() || part.end().is_none() {
            return Err(wrong_answer().into());
        }
        file.write_all(&part.bytes)?;
        digest.update(&part.bytes);
        received += part.bytes.len() as u64;
        // The master sends less than it was asked for when its parts are smaller.
        if pending
            .front()
            .is_some_and(|(_, next, _)| *next != received)
            || pending.is_empty()
        {
            pending.clear();
            asked = received;
        }
    }
    Ok(
        match received == seen.size && digest.id() == seen.transfer {
            true => Received::Whole,
            false => Received::OtherBytes,
        },
    )
}

/// Goes on with what an earlier attempt has written, and returns how many bytes that are.
fn resume(
    file: &mut std::fs::File,
    digest: &mut TransferDigest,
    size: u64,
) -> std::io::Result<u64> {
    let length = file.metadata()?.len();
    if length > size {
        file.set_len(0)?;
        return Ok(0);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; 256 * 1024];
    let mut received = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(received);
        }
        digest.update(&buffer[..read]);
        received += read as u64;
    }
}
