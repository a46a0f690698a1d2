//! The file of the spool: append-only, and compacted when it has grown.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::index::FileRange;
use super::record::{self, Record};

/// A file below this size is never compacted.
const SMALL: u64 = 64 * 1024;

/// An append-only file of records, opened when it is first needed.
#[derive(Debug)]
pub struct SpoolFile {
    path: PathBuf,
    sync: bool,
    open: Option<File>,
    /// The end of the last whole record.
    length: u64,
    /// The length after the last compaction.
    compacted: u64,
    /// Whether bytes that are no record may follow `length`.
    dirty: bool,
}

impl SpoolFile {
    /// Uses the file `path`; with `sync`, records are synced to the disk.
    pub fn new(path: PathBuf, sync: bool) -> Self {
        Self {
            path,
            sync,
            open: None,
            length: 0,
            compacted: 0,
            dirty: false,
        }
    }

    /// Reads every record, in order. The first bytes that are no record end the reading, and are
    /// cut off with everything behind them.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn replay(&mut self, mut each: impl FnMut(Record, FileRange)) -> io::Result<()> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let size = file.metadata()?.len();
        let mut reader = BufReader::new(file);
        let mut offset = 0;
        while let Some((record, length)) = record::next(&mut reader, size - offset)? {
            each(record, FileRange { offset, length });
            offset += length;
        }
        self.length = offset;
        if offset < size {
            tracing::warn!(
                "{}: the last {} bytes are not a record, as after a crash; they are cut off",
                self.path.display(),
                size - offset
            );
            self.dirty = true;
        }
        Ok(())
    }

    fn file(&mut self) -> io::Result<&File> {
        if self.open.is_none() {
            if let Some(folder) = self.path.parent() {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(folder)?;
            }
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .mode(0o600)
                .open(&self.path)?;
            self.open = Some(file);
        }
        let file = self.open.as_ref().ok_or(io::ErrorKind::NotFound)?;
        if self.dirty {
            file.set_len(self.length)?;
            self.dirty = false;
        }
        Ok(file)
    }

    /// Appends a record. `durable` records are synced if the file is.
    ///
    /// # Errors
    /// When the disk does not take the record; no part of it is left then.
    pub fn append(&mut self, record: &Record, durable: bool) -> io::Result<FileRange> {
        let frame = record::frame(record)?;
        self.write(&frame, self.sync && durable)
    }

    /// Appends records together, without a sync.
    ///
    /// # Errors
    /// When the disk does not take them; no part of any is left then.
    pub fn append_all(&mut self, records: impl IntoIterator<Item = Record>) -> io::Result<()> {
        let mut frames = Vec::new();
        for record in records {
            frames.extend(record::frame(&record)?);
        }
        self.write(&frames, false).map(drop)
    }

    fn write(&mut self, frame: &[u8], sync: bool) -> io::Result<FileRange> {
        let offset = self.length;
        let mut file = self.file()?;
        let written = file
            .write_all(frame)
            .and_then(|()| if sync { file.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            // Further records must not follow half a record.
            self.dirty = true;
            let _ = self.file();
            return Err(error);
        }
        let length = frame.len() as u64;
        self.length += length;
        Ok(FileRange { offset, length })
    }

    /// Reads the record in `range`.
    ///
    /// # Errors
    /// When it cannot be read or is no record.
    pub fn read(&mut self, range: FileRange) -> io::Result<Record> {
        let mut bytes = vec![0; usize::try_from(range.length).unwrap_or_default()];
        self.file()?.read_exact_at(&mut bytes, range.offset)?;
        record::unframe(&bytes).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the spool's record has changed")
        })
    }

    /// Whether the file has grown so much that it should be compacted.
    pub fn has_grown(&self) -> bool {
        self.length > SMALL.max(self.compacted.saturating_mul(2))
    }

    /// Replaces the file with a new one that `keep` writes, given the old one to read from. The
    /// replacement is atomic.
    ///
    /// # Errors
    /// When the disk does not take the new file; the old one is unchanged.
    pub fn rewrite(
        &mut self,
        keep: impl FnOnce(&mut Self, &mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = Self::new(fresh.clone(), false);
        new.file()?;
        keep(self, &mut new)?;
        if self.sync {
            new.file()?.sync_all()?;
        }
        std::fs::rename(&fresh, &self.path)?;
        if self.sync {
            sync_folder(&self.path)?;
        }
        self.open = new.open;
        self.length = new.length;
        self.compacted = new.length;
        self.dirty = false;
        Ok(())
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
