//! The file itself: appended to, read from, written anew when it has grown.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::index::Place;
use super::record::{self, Record};

/// Below this size the file is never written anew.
const SMALL: u64 = 64 * 1024;

/// An append-only file of records, opened when it is first needed.
#[derive(Debug)]
pub struct SpoolFile {
    path: PathBuf,
    sync: bool,
    open: Option<File>,
    /// Up to where it holds whole records.
    length: u64,
    /// How long it was when it was last written anew.
    compacted: u64,
    /// Whether bytes that are no record may stand behind `length`.
    dirty: bool,
}

impl SpoolFile {
    /// At `path`; with `sync`, records are written through to the disk.
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

    /// Reads every record, in order. What is no record ends the reading and is cut off, with
    /// everything behind it.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn replay(&mut self, mut each: impl FnMut(Record, Place)) -> io::Result<()> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let size = file.metadata()?.len();
        let mut reader = BufReader::new(file);
        let mut offset = 0;
        while let Some((record, length)) = record::next(&mut reader, size - offset)? {
            each(record, Place { offset, length });
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

    /// Appends a record. `durable` ones are written through when the file is to be.
    ///
    /// # Errors
    /// When the disk does not take it; nothing of it is left then.
    pub fn append(&mut self, record: &Record, durable: bool) -> io::Result<Place> {
        let frame = record::frame(record)?;
        let (sync, offset) = (self.sync && durable, self.length);
        let mut file = self.file()?;
        let written = file
            .write_all(&frame)
            .and_then(|()| if sync { file.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            // What follows must not stand behind half a record.
            self.dirty = true;
            let _ = self.file();
            return Err(error);
        }
        let length = frame.len() as u64;
        self.length += length;
        Ok(Place { offset, length })
    }

    /// Reads the record that lies there.
    ///
    /// # Errors
    /// When it cannot be read or is not one.
    pub fn read(&mut self, place: Place) -> io::Result<Record> {
        let mut bytes = vec![0; usize::try_from(place.length).unwrap_or_default()];
        self.file()?.read_exact_at(&mut bytes, place.offset)?;
        record::unframe(&bytes).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the spool's record has changed")
        })
    }

    /// Whether it has grown so much that it should be written anew.
    pub fn has_grown(&self) -> bool {
        self.length > SMALL.max(self.compacted.saturating_mul(2))
    }

    /// Writes the file anew: what `keep` puts into the new one, given the old one to read from. It
    /// takes the old one's place at once or not at all.
    ///
    /// # Errors
    /// When the disk does not take it; the old one is as it was.
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
