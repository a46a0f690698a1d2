//! The messages between a daemon and `saline-render`.

use std::io::{self, Read, Write};

use saline_data::Packed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::lint::Finding;
use crate::{Document, File, Place, RenderError, Step};

/// The most bytes of a frame.
const MAX_FRAME: u32 = 64 * 1024 * 1024;

/// A message of the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Render a file.
    Render(RenderOrder),
    /// Say from where a part of a rendered file comes.
    Place(RenderOrder, Vec<Step>),
    /// Say what of a file will not render.
    Lint { path: String, text: String },
    /// The file that was asked for.
    File(Result<Option<File>, String>),
}

/// The file to render.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RenderOrder {
    /// Whether files may have changed since the last order.
    pub(super) forget: bool,
    pub(super) name: String,
    pub(super) document: Document,
    pub(super) variables: Packed,
}

/// A message of `saline-render`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The process takes orders, or cannot shut itself in.
    Ready(Result<(), String>),
    /// The process needs the file with this name.
    Read(String),
    /// The rendered file.
    Rendered(Result<Packed, RenderError>),
    /// The place of a part of a rendered file, where it is known.
    Placed(Option<Place>),
    /// The findings of a lint of a file.
    Linted(Vec<Finding>),
}

/// Writes a frame.
///
/// # Errors
/// When it is too large, and when the other side is gone.
pub(super) fn write(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut frame = vec![0; 4];
    frame = postcard::to_extend(message, frame).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - 4).ok();
    let length = length.filter(|length| *length <= MAX_FRAME);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&frame)
}

/// Reads a frame.
///
/// # Errors
/// When it is no message, and when the other side is gone or silent.
pub(super) fn read<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = Vec::new();
    // Memory grows with what comes, not with what was announced.
    from.take(u64::from(length)).read_to_end(&mut frame)?;
    postcard::from_bytes(&frame).map_err(|_| io::ErrorKind::InvalidData.into())
}
