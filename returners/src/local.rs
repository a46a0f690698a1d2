//! The destination `local`: a file on the master with a line of JSON for each record.
//!
//! The file is opened for each batch, so that it can be renamed or removed at any time, by logrotate or by hand.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use saline_data::json;
use saline_protocol::transport::Context;

use crate::blocking_delivery::BlockingDelivery;
use crate::{DeliveryError, Destination, Record};

/// A file to which records are appended.
#[derive(Debug)]
pub(crate) struct LocalFile {
    path: PathBuf,
    delivery: BlockingDelivery,
}

impl LocalFile {
    pub(crate) fn new(path: PathBuf, context: Context) -> Self {
        let delivery = BlockingDelivery::new(context);
        Self { path, delivery }
    }
}

#[async_trait]
impl Destination for LocalFile {
    async fn deliver(&mut self, records: &[Record]) -> Result<(), DeliveryError> {
        let path = self.path.clone();
        let work = move |records: &[Record]| {
            let mut lines = Vec::new();
            for record in records {
                lines.extend(json::line(&record.to_value()));
                lines.push(b'\n');
            }
            append(&path, &lines).map_err(|error| error.to_string())
        };
        let appended = self.delivery.deliver(records, work).await;
        appended.map_err(|why| DeliveryError::Away(format!("{}: {why}", self.path.display())))
    }
}

/// Appends lines and has them on the disk. What was written of them is removed again when that fails.
fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    let mut options = saline_private_files::options();
    options.read(true).append(true).create(true);
    let mut file = saline_private_files::open(path, &options)?;
    if !file.metadata()?.is_file() {
        return file.write_all(lines);
    }
    let end = file.seek(SeekFrom::End(0))?;
    let written = end_line(&mut file, end)
        .and_then(|()| file.write_all(lines))
        .and_then(|()| file.sync_data());
    if written.is_err() {
        // The lines come again. If this fails too, some come twice.
        let _ = file.set_len(end);
    }
    written
}

/// Ends the last line, if a crash has left it without an end.
fn end_line(file: &mut File, end: u64) -> io::Result<()> {
    if end == 0 {
        return Ok(());
    }
    file.seek(SeekFrom::Start(end - 1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    match last {
        [b'\n'] => Ok(()),
        _ => file.write_all(b"\n"),
    }
}
