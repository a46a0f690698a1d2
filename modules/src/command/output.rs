//! The output of a program: in memory up to a limit, above it in a file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::oversize_output;

/// The output of a program on one stream.
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    total: u64,
    limit: usize,
    /// The largest file in bytes; further output is only counted.
    file_most: u64,
    cache_dir: PathBuf,
    spilled: Option<Spilled>,
}

#[derive(Debug)]
enum Spilled {
    /// The whole output, or its beginning, is in this file.
    File {
        file: File,
        path: PathBuf,
        written: u64,
    },
    /// No file is wanted.
    Dropped,
    /// The output could not be stored.
    Lost(std::io::Error),
}

impl Output {
    /// Creates an empty output. If there are more than `limit` bytes, the first `file_most` go to a file under
    /// `cache_dir`.
    pub fn new(limit: usize, file_most: u64, cache_dir: &Path) -> Self {
        Self {
            bytes: Vec::new(),
            total: 0,
            limit,
            file_most,
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
            let held = std::mem::take(&mut self.bytes);
            self.spilled = Some(self.spill());
            self.write(&held);
        }
        self.write(bytes);
    }

    fn spill(&self) -> Spilled {
        if self.file_most == 0 {
            return Spilled::Dropped;
        }
        match oversize_output::create(&self.cache_dir, "output") {
            Ok((file, path)) => Spilled::File {
                file,
                path,
                written: 0,
            },
            Err(error) => Spilled::Lost(error),
        }
    }

    /// Writes as much as the file may hold.
    fn write(&mut self, bytes: &[u8]) {
        let Some(Spilled::File {
            file,
            path,
            written,
        }) = &mut self.spilled
        else {
            return;
        };
        let room = usize::try_from(self.file_most - *written).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        match file.write_all(bytes) {
            Ok(()) => *written += bytes.len() as u64,
            Err(error) => {
                // What is there fills the disk and is of no use to anybody who was not told of it.
                let _ = std::fs::remove_file(path);
                self.spilled = Some(Spilled::Lost(error));
            }
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
            Some(Spilled::Dropped) => Err(format!(
                "{too_large}, and output_file_size is 0, so that none of it is stored"
            )),
            Some(Spilled::File { path, written, .. }) => {
                let stored = match written < total {
                    true => format!("its first {written} bytes are"),
                    false => "all of it is".to_owned(),
                };
                Err(format!(
                    "{too_large}; {stored} stored in {} on the minion, for a day (output_file_size bounds the file)",
                    path.display()
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_output_is_bounded_and_the_return_says_so() {
        let cache = tempfile::tempdir().unwrap();
        let told = |file_most: u64, pushed: usize| {
            let mut output = Output::new(10, file_most, cache.path());
            for _ in 0..pushed {
                output.push(b"yyyyyyy");
            }
            let said = output.into_bytes().unwrap_err();
            let files = std::fs::read_dir(cache.path().join("output"));
            let mut sizes = Vec::new();
            for file in files.into_iter().flatten().flatten() {
                sizes.push(file.metadata().unwrap().len());
                std::fs::remove_file(file.path()).unwrap();
            }
            let said = said.replace(&cache.path().display().to_string(), "CACHE");
            (said.split("output/").next().unwrap().to_owned(), sizes)
        };
        let (said, sizes) = told(25, 3);
        assert_eq!(sizes, [21]);
        assert_eq!(
            said,
            "the output of 21 bytes is above the limit of 10 bytes; all of it is stored in CACHE/"
        );
        let (said, sizes) = told(25, 1000);
        assert_eq!(sizes, [25]);
        assert_eq!(
            said,
            "the output of 7000 bytes is above the limit of 10 bytes; its first 25 bytes are stored in CACHE/"
        );
        let (said, sizes) = told(0, 1000);
        assert_eq!(sizes, [0; 0]);
        assert_eq!(
            said,
            "the output of 7000 bytes is above the limit of 10 bytes, and output_file_size is 0, so that none of it is stored"
        );
    }
}
