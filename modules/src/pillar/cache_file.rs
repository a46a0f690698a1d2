//! The file that keeps the pillar where `minion_pillar_cache` says so: its bytes as the master sent them, for this user alone.

use std::io::{self, Read};
use std::path::PathBuf;

use saline_messages::{MAX_PILLAR, MinionPillar, TransferId};

use super::Pillar;

/// The file of the pillar.
#[derive(Debug)]
pub(super) struct CacheFile(pub(super) PathBuf);

impl CacheFile {
    /// Reads the pillar; none if there is no file, or if it cannot be used, which the log says.
    pub(super) fn read(&self) -> Option<Pillar> {
        match self.read_file() {
            Ok(found) => found,
            Err(why) => {
                tracing::warn!("the pillar in {} is not used: {why}", self.0.display());
                None
            }
        }
    }

    fn read_file(&self) -> Result<Option<Pillar>, String> {
        let mut options = saline_private_files::options();
        let file = match saline_private_files::open(&self.0, options.read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let mut bytes = Vec::new();
        let most = MAX_PILLAR as u64;
        let read = file.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        if bytes.len() as u64 > most {
            return Err("it is too large".to_owned());
        }
        let sent = MinionPillar::from_bytes(&bytes).map_err(|_| "it is damaged".to_owned())?;
        let pillar = Pillar::of(sent, TransferId::of(&bytes), None);
        pillar.map(Some).map_err(|_| "it is damaged".to_owned())
    }

    /// Writes the pillar. The log says if that fails.
    pub(super) fn write(&self, bytes: &[u8]) {
        let folder = self.0.parent().map(saline_private_files::create_folder);
        let written = folder
            .unwrap_or(Ok(()))
            .and_then(|()| saline_private_files::replace(&self.0, bytes, 0o600));
        if let Err(error) = written {
            tracing::warn!("the pillar is not kept in {}: {error}", self.0.display());
        }
    }

    /// Removes the file. The log says if that fails.
    pub(super) fn remove(&self) {
        match std::fs::remove_file(&self.0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(
                "the pillar of an earlier start is left in {}, remove it: {error}",
                self.0.display()
            ),
        }
    }
}
