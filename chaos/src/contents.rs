//! The content of a return: the output of the job, or the reason why it is not whole.

use crate::plan::Output;

/// How the text begins that a minion returns for a run that was interrupted, or whose return it may have lost.
const INTERRUPTED: &str = "The minion stopped while it ran this job";

/// How many characters are kept of a return with any other content.
const MAX_SHOWN_CHARS: usize = 120;

/// The content of a return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// The whole output of a job.
    Whole(Output),
    /// The text for a run that was interrupted, or whose return may have been lost.
    Interrupted,
    /// The beginning of any other content.
    Other(String),
}

impl Content {
    /// Reads a return that is a text.
    pub(crate) fn of_text(text: &str) -> Self {
        match Output::read(text) {
            Some(output) => Self::Whole(output),
            None if text.starts_with(INTERRUPTED) => Self::Interrupted,
            None => {
                let begins: String = text.chars().take(MAX_SHOWN_CHARS).collect();
                Self::Other(format!("{begins:?}, {} bytes", text.len()))
            }
        }
    }

    /// Reads a return as it is stored: a text in MessagePack.
    pub(crate) fn of_packed(bytes: &[u8]) -> Self {
        match packed_text(bytes) {
            Some(text) => Self::of_text(text),
            None => Self::Other(format!("{} bytes that are no text", bytes.len())),
        }
    }
}

/// Returns the text in a MessagePack string that fills all of these bytes.
fn packed_text(bytes: &[u8]) -> Option<&str> {
    let (kind, rest) = bytes.split_first()?;
    let width = match kind {
        0xa0..=0xbf => 0,
        0xd9 => 1,
        0xda => 2,
        0xdb => 4,
        _ => return None,
    };
    let (length, text) = rest.split_at_checked(width)?;
    let length = match width {
        0 => usize::from(kind & 0x1f),
        _ => length
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
    };
    (text.len() == length).then(|| std::str::from_utf8(text).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_are_told_apart() {
        let whole = |content| matches!(content, Content::Whole(_));
        assert!(whole(Content::of_text("t000005 m1\n.")));
        assert!(whole(Content::of_packed(b"\xact000005 m1\n.")));
        assert!(whole(Content::of_packed(b"\xd9\x0ct000005 m1\n.")));
        assert!(!whole(Content::of_packed(b"\xd9\x0dt000005 m1\n.")));
        let or_lost = format!("{INTERRUPTED}, or the job ended and the return was lost");
        for text in [INTERRUPTED, or_lost.as_str()] {
            assert_eq!(Content::of_text(text), Content::Interrupted);
        }
        assert!(matches!(
            Content::of_text("t000005 m1\n"),
            Content::Other(_)
        ));
    }
}
