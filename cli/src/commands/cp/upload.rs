//! Hands the files of a call to the master.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;

use saline_client::{Client, ClientError};
use saline_messages::{
    OrderWarning, Part, TransferDigest, TransferId, UploadId, UploadReply, UploadRequest,
};

use super::sources::{SourceFile, Sources};
use crate::commands::master_away::until_answered;
use crate::screen::Screen;

/// The most bytes of a part.
const PART: u64 = 256 * 1024;

/// How often a file is started over that changes while it is sent.
const ATTEMPTS: usize = 3;

/// The reason why files are not at the master.
#[derive(Debug)]
pub(super) enum UploadError {
    Master(ClientError),
    /// A file of this machine cannot be read.
    File(String),
}

impl From<ClientError> for UploadError {
    fn from(error: ClientError) -> Self {
        Self::Master(error)
    }
}

/// Hands all files to the master. Returns what the operator is warned of.
pub(super) async fn upload(
    screen: &mut Screen<'_>,
    client: &Client,
    id: UploadId,
    sources: Sources,
) -> Result<Vec<OrderWarning>, UploadError> {
    let begin = UploadRequest::Begin {
        upload: id,
        // Bounded when they were opened.
        files: u32::try_from(sources.files.len()).unwrap_or(u32::MAX),
        bytes: sources.bytes(),
    };
    let warnings = match until_answered(screen, client, client.upload(begin)).await? {
        UploadReply::Begun(warnings) => warnings,
        _ => return Err(ClientError::WrongAnswer("Upload").into()),
    };
    for (number, source) in (0..).zip(sources.files) {
        send(screen, client, (id, number), source).await?;
    }
    Ok(warnings)
}

/// Hands one file to the master.
async fn send(
    screen: &mut Screen<'_>,
    client: &Client,
    (upload, number): (UploadId, u32),
    source: SourceFile,
) -> Result<(), UploadError> {
    let SourceFile {
        path,
        mut file,
        bytes: total,
        ..
    } = source;
    for _ in 0..ATTEMPTS {
        // Apart from the connection, which is to stay alive meanwhile.
        let hashing = client.context().spawn_blocking(move || {
            let hashed = hash(&mut file, total);
            (file, hashed)
        });
        let Ok((read, hashed)) = hashing.await else {
            return Err(UploadError::File(format!(
                "{} cannot be hashed",
                path.display()
            )));
        };
        file = read;
        let transfer = hashed.map_err(|error| cannot_read(&path, &error))?;
        if send_as(
            screen,
            client,
            (upload, number),
            (&path, &file),
            (transfer, total),
        )
        .await?
        {
            return Ok(());
        }
    }
    Err(UploadError::File(format!(
        "{} changes all the time",
        path.display()
    )))
}

/// Sends the parts of a file with this hash. Returns whether the master has it; otherwise the file has changed.
async fn send_as(
    screen: &mut Screen<'_>,
    client: &Client,
    (upload, number): (UploadId, u32),
    (path, file): (&Path, &File),
    (transfer, total): (TransferId, u64),
) -> Result<bool, UploadError> {
    let mut offset = 0;
    loop {
        let length = usize::try_from(PART.min(total - offset)).unwrap_or_default();
        let mut bytes = vec![0; length];
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                let why = format!("{} became shorter while it was sent", path.display());
                return Err(UploadError::File(why));
            }
            Err(error) => return Err(cannot_read(path, &error)),
        }
        let part = UploadRequest::Part {
            upload,
            number,
            part: Part {
                transfer,
                total,
                offset,
                bytes: bytes.into(),
            },
        };
        match until_answered(screen, client, client.upload(part)).await? {
            UploadReply::Received(received) if received == total => return Ok(true),
            // Other bytes than were announced start over.
            UploadReply::Received(received) if received <= offset || received > total => {
                return Ok(false);
            }
            UploadReply::Received(received) => offset = received,
            _ => return Err(ClientError::WrongAnswer("Upload").into()),
        }
    }
}

fn hash(file: &mut File, total: u64) -> std::io::Result<TransferId> {
    file.rewind()?;
    let mut digest = TransferDigest::default();
    let mut from = file.take(total);
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(digest.id()),
            read => digest.update(&buffer[..read]),
        }
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> UploadError {
    UploadError::File(format!("cannot read {}: {error}", path.display()))
}
