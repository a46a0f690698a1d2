//! The file of the spool: append-only, and compacted when it has grown.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::index::FileRange;
use super::record::{self, Marker, Record};

use saline_messages::random;
use saline_protocol::transport::{Clock, Instant};

/// A file below this size is never compacted.
const SMALL: u64 = 64 * 1024;

/// The beginning of every spool, before its marker; its last byte is the version of the format.
const MAGIC: [u8; 8] = *b"saline-1";

/// The bytes before the first record.
const FILE_HEADER: u64 = 16;

/// How much is read at once to find a record behind damaged bytes.
const SEARCHED: usize = 64 * 1024;

/// How long a compaction that failed is not tried again: a disk that had no room for the new file rarely has it a second later, and
/// each attempt writes until it is full.
pub(super) const COMPACTED_AGAIN: Duration = Duration::from_secs(60);

/// The most damaged spools that are kept.
const DAMAGED_KEPT: u32 = 8;

/// An append-only file of records, opened when it is first needed.
#[derive(Debug)]
pub struct SpoolFile {
    path: PathBuf,
    sync: bool,
    open: Option<File>,
    /// None before the file has one.
    marker: Option<Marker>,
    /// The end of the last whole record.
    length: u64,
    /// The length after the last compaction.
    compacted: u64,
    /// Until when it is not compacted again, since the last attempt failed.
    left_alone_until: Option<Instant>,
    /// Whether bytes that are no record may follow `length`.
    dirty: bool,
    /// Whether a loss of power may take the file, or put the one before in its place: the folder was not synced since.
    unsynced_name: bool,
}

/// The condition of the file that a replay found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Every byte belongs to a record, but for half a record at the end, as after a crash.
    Sound,
    /// Records in the middle could not be read. A copy of the file was kept.
    Damaged,
}

impl SpoolFile {
    /// Returns the end of the last whole record.
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Uses the file `path`; with `sync`, records are synced to the disk.
    pub fn new(path: PathBuf, sync: bool) -> Self {
        Self {
            path,
            sync,
            open: None,
            marker: None,
            length: 0,
            compacted: 0,
            left_alone_until: None,
            dirty: false,
            unsynced_name: false,
        }
    }

    /// Reads every record, in order. Bytes that are no record are skipped. When records follow them, a copy
    /// of the whole file is kept; at the end they are cut off.
    ///
    /// # Errors
    /// When the file exists and cannot be read, another version wrote it (`InvalidData`), or a damaged one cannot be
    /// copied.
    pub fn replay(&mut self, mut each: impl FnMut(Record, FileRange)) -> io::Result<Condition> {
        let mut file = match saline_private_files::open(
            &self.path,
            saline_private_files::options().read(true),
        ) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Condition::Sound),
            Err(error) => return Err(error),
        };
        let size = file.metadata()?.len();
        let Some(marker) = read_marker(&mut file, size)? else {
            self.dirty = true;
            if size < FILE_HEADER {
                // It was created, and nothing was written.
                return Ok(Condition::Sound);
            }
            self.keep_damaged()?;
            return Ok(Condition::Damaged);
        };
        self.marker = Some(marker);
        let mut condition = Condition::Sound;
        let (mut offset, mut searched) = (FILE_HEADER, FILE_HEADER);
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(offset))?;
        self.length = offset;
        while searched < size {
            if let Some((record, length)) = record::next(marker, &mut reader, size - searched)? {
                if searched > offset {
                    tracing::error!(
                        "{}: {} bytes are damaged, and the records in them are lost",
                        self.path.display(),
                        searched - offset
                    );
                    condition = Condition::Damaged;
                }
                let range = FileRange {
                    offset: searched,
                    length,
                };
                each(record, range);
                offset = searched + length;
                searched = offset;
                self.length = offset;
                continue;
            }
            match find(marker, &mut reader, searched + 1)? {
                Some(found) => {
                    searched = found;
                    reader.seek(SeekFrom::Start(found))?;
                }
                None => break,
            }
        }
        reader.seek(SeekFrom::Start(self.length))?;
        if self.length < size && !record::is_torn(marker, &mut reader, size - self.length)? {
            // No crash of the minion leaves a whole record with other bytes in it.
            condition = Condition::Damaged;
        }
        if self.length < size {
            tracing::warn!(
                "{}: the last {} bytes are not a record, as after a crash; they are cut off",
                self.path.display(),
                size - self.length
            );
            self.dirty = true;
        }
        if condition == Condition::Damaged {
            self.keep_damaged()?;
        }
        Ok(condition)
    }

    /// Copies the file beside itself, so that nothing of it is lost.
    fn keep_damaged(&self) -> io::Result<()> {
        for number in 1..=DAMAGED_KEPT {
            let copy = self.path.with_extension(format!("damaged-{number}"));
            if !copy.try_exists()? || number == DAMAGED_KEPT {
                let mut from = saline_private_files::open(
                    &self.path,
                    saline_private_files::options().read(true),
                )?;
                let mut options = saline_private_files::options();
                options.write(true).create(true).truncate(false);
                let mut to = saline_private_files::open(&copy, &options)?;
                to.set_len(0)?;
                io::copy(&mut from, &mut to)?;
                tracing::error!(
                    "{} is damaged; what can be read of it is used, and a copy is kept in {}",
                    self.path.display(),
                    copy.display()
                );
                break;
            }
        }
        Ok(())
    }

    fn file(&mut self) -> io::Result<(&File, Marker)> {
        if self.open.is_none() {
            if let Some(folder) = self.path.parent() {
                saline_private_files::create_folder(folder)?;
            }
            let mut options = saline_private_files::options();
            options.read(true).append(true).create(true);
            self.open = Some(saline_private_files::open(&self.path, &options)?);
        }
        let mut file = self.open.as_ref().ok_or(io::ErrorKind::NotFound)?;
        if self.dirty {
            file.set_len(self.length)?;
            self.dirty = false;
        }
        let marker = match self.marker {
            Some(marker) => marker,
            None => {
                let marker: Marker = random::bytes().map_err(io::Error::other)?;
                if let Err(error) = file.write_all(&[MAGIC, marker].concat()) {
                    self.dirty = true;
                    return Err(error);
                }
                self.length = FILE_HEADER;
                self.unsynced_name = true;
                *self.marker.insert(marker)
            }
        };
        Ok((file, marker))
    }

    /// Appends a record. `durable` records are synced if the file is.
    ///
    /// # Errors
    /// When the disk does not take the record; no part of it is left then.
    pub fn append(&mut self, record: &Record, durable: bool) -> io::Result<FileRange> {
        let (head, payload) = record::frame(self.file()?.1, record)?;
        self.write([&head, &payload], self.sync && durable)
    }

    /// Appends a record and syncs it, with everything before it.
    ///
    /// # Errors
    /// When the disk does not take the record; no part of it is left then.
    pub fn append_synced(&mut self, record: &Record) -> io::Result<FileRange> {
        let (head, payload) = record::frame(self.file()?.1, record)?;
        self.write([&head, &payload], true)
    }

    /// Appends records together, without a sync.
    ///
    /// # Errors
    /// When the disk does not take them; no part of any is left then.
    pub fn append_all(&mut self, records: impl IntoIterator<Item = Record>) -> io::Result<()> {
        let marker = self.file()?.1;
        let mut frames = Vec::new();
        for record in records {
            let (head, payload) = record::frame(marker, &record)?;
            frames.extend(head);
            frames.extend(payload);
        }
        self.write([&frames, &[]], false).map(drop)
    }

    fn write(&mut self, pieces: [&[u8]; 2], sync: bool) -> io::Result<FileRange> {
        let unsynced = self.unsynced_name.then(|| self.path.clone());
        let mut file = self.file()?.0;
        let written = pieces.iter().try_for_each(|piece| file.write_all(piece));
        let written = written.and_then(|()| match &unsynced {
            _ if !sync => Ok(()),
            Some(path) => file.sync_data().and_then(|()| sync_folder(path)),
            None => file.sync_data(),
        });
        self.unsynced_name &= !sync || written.is_err();
        if let Err(error) = written {
            // Further records must not follow half a record.
            self.dirty = true;
            let _ = self.file();
            return Err(error);
        }
        let offset = self.length;
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.length += length;
        Ok(FileRange { offset, length })
    }

    /// Reads the record in `range`.
    ///
    /// # Errors
    /// When it cannot be read or is no record.
    pub fn read(&mut self, range: FileRange) -> io::Result<Record> {
        let mut bytes = vec![0; usize::try_from(range.length).unwrap_or_default()];
        let (file, marker) = self.file()?;
        file.read_exact_at(&mut bytes, range.offset)?;
        record::unframe(marker, &bytes).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the spool's record has changed")
        })
    }

    /// Whether the file has grown so much that it should be compacted now.
    pub fn has_grown(&self) -> bool {
        self.length > SMALL.max(self.compacted.saturating_mul(2))
            && self
                .left_alone_until
                .is_none_or(|until| Clock.now() >= until)
    }

    /// Replaces the file with a new one that `keep` writes, given the old one to read from. The
    /// replacement is atomic.
    ///
    /// # Errors
    /// When the disk does not take the new file; the old one is unchanged, nothing is left of the new one, and the file does
    /// not count as grown for a minute.
    pub fn rewrite(
        &mut self,
        keep: impl FnOnce(&mut Self, &mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let new = match self.write_new(&fresh, keep) {
            Ok(new) => new,
            Err(error) => {
                self.left_alone_until = Some(Clock.after(COMPACTED_AGAIN));
                // What was written of it would take the room of the next records.
                let _ = std::fs::remove_file(&fresh);
                return Err(error);
            }
        };
        // From here on the new file is the spool, whatever fails.
        self.open = new.open;
        self.marker = new.marker;
        self.length = new.length;
        self.compacted = new.length;
        self.left_alone_until = None;
        self.dirty = false;
        self.unsynced_name = true;
        match sync_folder(&self.path) {
            Ok(()) => self.unsynced_name = false,
            // The ranges of the records are those of the new file all the same.
            Err(error) => tracing::warn!(
                "the folder of the spool is synced with the next record, since that failed now: {error}"
            ),
        }
        Ok(())
    }

    /// Writes the file that replaces this one at `fresh`, and gives it the name of this one.
    fn write_new(
        &mut self,
        fresh: &Path,
        keep: impl FnOnce(&mut Self, &mut Self) -> io::Result<()>,
    ) -> io::Result<Self> {
        match std::fs::remove_file(fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = Self::new(fresh.to_owned(), false);
        new.file()?;
        keep(self, &mut new)?;
        // Always, or a loss of power could leave the new name with nothing behind it.
        new.file()?.0.sync_all()?;
        std::fs::rename(fresh, &self.path)?;
        Ok(new)
    }
}

/// Reads the marker of a file; none when it does not begin like a spool.
///
/// # Errors
/// When reading fails, or the spool is of another version.
fn read_marker(file: &mut File, size: u64) -> io::Result<Option<Marker>> {
    if size < FILE_HEADER {
        return Ok(None);
    }
    let (mut magic, mut marker) = ([0; 8], Marker::default());
    file.read_exact(&mut magic)?;
    file.read_exact(&mut marker)?;
    match magic {
        MAGIC => Ok(Some(marker)),
        [b's', b'a', b'l', b'i', b'n', b'e', b'/' | b'-', b'1'..=b'9'] => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "another version of Saline wrote it: have that version deliver the returns in it, or move it away",
        )),
        _ => Ok(None),
    }
}

/// Finds the marker in a file from `offset` on, and returns its place.
fn find(marker: Marker, file: &mut (impl Read + Seek), mut offset: u64) -> io::Result<Option<u64>> {
    let mut bytes = vec![0; SEARCHED];
    loop {
        file.seek(SeekFrom::Start(offset))?;
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read(&mut bytes[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        let found = bytes[..filled]
            .windows(marker.len())
            .position(|at| *at == marker);
        if let Some(place) = found {
            return Ok(Some(offset + place as u64));
        }
        if filled < bytes.len() {
            return Ok(None);
        }
        // A marker may begin in the last bytes.
        offset += (filled - marker.len() + 1) as u64;
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
