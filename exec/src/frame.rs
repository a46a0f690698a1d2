//! The frames between a daemon and `saline-exec`: a length, the version, and the message.

use std::io::{self, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of descriptions and reports. A daemon that was started before an upgrade may meet the
/// `saline-exec` of after it.
const VERSION: u8 = 2;

/// The largest frame, in bytes; no system executes a command with so many bytes of arguments.
const MAX_FRAME: usize = 16 * 1024 * 1024;

/// The bytes of the length and of the version.
const HEADER: usize = 5;

/// The reason why a frame is not understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The frame could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The frame is of another version.
    #[error("version {0}")]
    Version(u8),
    /// The bytes are no such message, or too many.
    #[error("malformed")]
    Malformed,
}

/// Returns the frame of a message.
///
/// # Errors
/// When the message is too large.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let frame = postcard::to_extend(message, vec![0; HEADER]).map_err(io::Error::other)?;
    let length = frame.len() - HEADER;
    if length > MAX_FRAME {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let mut frame = frame;
    // It is at most `MAX_FRAME`.
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    frame[4] = VERSION;
    Ok(frame)
}

/// Reads one frame.
///
/// # Errors
/// When the stream ends, and when the frame is not understood.
pub(crate) fn read<T: DeserializeOwned>(mut from: impl Read) -> Result<T, FrameError> {
    let mut header = [0; HEADER];
    from.read_exact(&mut header)?;
    let [a, b, c, d, version] = header;
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > MAX_FRAME {
        return Err(FrameError::Malformed);
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    postcard::from_bytes(&body).map_err(|_| FrameError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_and_no_other_is_read() {
        let frame = encode(&"abc").unwrap();
        assert_eq!(read::<String>(&*frame).unwrap(), "abc");
        let mut other = frame.clone();
        other[4] = 9;
        assert!(matches!(
            read::<String>(&*other),
            Err(FrameError::Version(9))
        ));
        let mut long = frame.clone();
        long[3] = 0xff;
        assert!(matches!(read::<String>(&*long), Err(FrameError::Malformed)));
        let mut wrong = frame.clone();
        wrong[5] = 200;
        assert!(matches!(
            read::<String>(&*wrong),
            Err(FrameError::Malformed)
        ));
        for cut in 0..frame.len() {
            assert!(matches!(
                read::<String>(&frame[..cut]),
                Err(FrameError::Read(_))
            ));
        }
        let huge = "x".repeat(MAX_FRAME);
        assert_eq!(encode(&huge).unwrap_err().raw_os_error(), Some(libc::E2BIG));
    }
}
