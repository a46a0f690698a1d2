//! The output of a program: in memory up to a limit, above it in a file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::oversize_output;

/// The largest file, as a multiple of the limit; further output is only counted.
const FILE_TIMES_LIMIT: u64 = 16;

/// The output of a program on one stream.
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    total: u64,
    limit: usize,
    cache_dir: PathBuf,
    spilled: Option<Spilled>,
}

#[derive(Debug)]
enum Spilled {
    /// The whole output, or its beginning, is in this file.
    File { file: File, path: PathBuf },
    /// The output could not be stored.
    Lost(std::io::Error),
}

impl Output {
    /// Creates an empty output. More than `limit` bytes go to a file under `cache_dir`.
    pub fn new(limit: usize, cache_dir: &Path) -> Self {
        Self {
            bytes: Vec::new(),
            total: 0,
            limit,
            cache_dir: cache_dir.to_owned(),
            spilled: None,
        }
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.spilled.is_none() {
            if self.bytes.len() + bytes.len() <= self.limit {
                self.bytes.extend_from_slice(bytes);
                return;
            }
            self.spilled = Some(match oversize_output::create(&self.cache_dir, "output") {
                Ok((file, path)) => Spilled::File { file, path },
                Err(error) => Spilled::Lost(error),
            });
            let held = std::mem::take(&mut self.bytes);
            self.write(&held);
        }
        if self.total <= (self.limit as u64).saturating_mul(FILE_TIMES_LIMIT) {
            self.write(bytes);
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(Spilled::File { file, .. }) = &mut self.spilled
            && let Err(error) = file.write_all(bytes)
        {
            self.spilled = Some(Spilled::Lost(error));
        }
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// When there were more than the limit: a text that names the size, the limit and the file.
    pub fn into_bytes(self) -> Result<Vec<u8>, String> {
        let (total, limit) = (self.total, self.limit);
        let too_large = format!("the output of {total} bytes is above the limit of {limit} bytes");
        match self.spilled {
            None => Ok(self.bytes),
            Some(Spilled::Lost(error)) => {
                Err(format!("{too_large}, and could not be stored: {error}"))
            }
            Some(Spilled::File { path, .. }) => {
                let most = (limit as u64).saturating_mul(FILE_TIMES_LIMIT);
                let stored = if total > most {
                    "its beginning"
                } else {
                    "all of it"
                };
                Err(format!(
                    "{too_large}; {stored} is stored in {}",
                    path.display()
                ))
            }
        }
    }
}
