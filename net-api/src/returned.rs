//! The answer `{"return": […]}`, which is written while it is sent.
//!
//! The returns of minions can be large, and their text several times as large as they are: each becomes text when what is before it
//! was sent, and goes then.

use std::convert::Infallible;
use std::fmt;
use std::iter::once;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use saline_data::{Value, json};

/// The size in bytes from which on what is written is sent.
const FRAME: usize = 64 * 1024;

/// A part of the text.
enum Piece {
    Mark(&'static str),
    Value(Value),
    /// An entry of a mapping.
    Entry(String, Value),
}

impl Piece {
    fn write(self, text: &mut Vec<u8>) {
        match self {
            Self::Mark(mark) => text.extend_from_slice(mark.as_bytes()),
            Self::Value(value) => text.extend(json::line(&value)),
            Self::Entry(name, value) => {
                text.extend(json::line(&Value::from(name)));
                text.extend_from_slice(b": ");
                text.extend(json::line(&value));
            }
        }
    }
}

/// Returns the pieces of one value. The entries of a mapping are pieces of their own.
fn pieces(value: Value) -> Box<dyn Iterator<Item = Piece> + Send> {
    match value {
        Value::Map(entries) => {
            let entries = entries.into_iter();
            let entries = entries.map(|(name, value)| once(Piece::Entry(name, value)));
            let marked = once(Piece::Mark("{")).chain(separated(entries));
            Box::new(marked.chain(once(Piece::Mark("}"))))
        }
        value => Box::new(once(Piece::Value(value))),
    }
}

/// Puts commas between the pieces of several values.
fn separated<P: Iterator<Item = Piece>>(
    values: impl Iterator<Item = P>,
) -> impl Iterator<Item = Piece> {
    values.enumerate().flat_map(|(position, pieces)| {
        let comma = (position > 0).then_some(Piece::Mark(", "));
        comma.into_iter().chain(pieces)
    })
}

/// The text of `{"return": […]}` as the body of an answer.
pub(crate) struct ReturnedBody {
    pieces: Box<dyn Iterator<Item = Piece> + Send>,
    /// What is written and not yet sent.
    written: Vec<u8>,
    /// Whether nothing comes behind that.
    is_whole: bool,
}

impl ReturnedBody {
    /// Returns the text of these values. In a mapping among them each name is there once.
    pub(crate) fn new(returned: Vec<Value>) -> Self {
        let pieces = once(Piece::Mark("{\"return\": ["))
            .chain(separated(returned.into_iter().map(pieces)))
            .chain(once(Piece::Mark("]}")));
        let mut body = Self {
            pieces: Box::new(pieces),
            written: Vec::new(),
            is_whole: false,
        };
        // So that a short text has its length in the head of the answer.
        body.write();
        body
    }

    /// Writes until a frame is full.
    fn write(&mut self) {
        while self.written.len() < FRAME && !self.is_whole {
            match self.pieces.next() {
                Some(piece) => piece.write(&mut self.written),
                None => self.is_whole = true,
            }
        }
    }
}

impl Body for ReturnedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.write();
        let text = std::mem::take(&mut self.written);
        Poll::Ready((!text.is_empty()).then(|| Ok(Frame::data(text.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_whole && self.written.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let written = self.written.len() as u64;
        match self.is_whole {
            true => SizeHint::with_exact(written),
            false => {
                let mut hint = SizeHint::new();
                hint.set_lower(written);
                hint
            }
        }
    }
}

impl fmt::Debug for ReturnedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReturnedBody")
            .field("is_whole", &self.is_whole)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use proptest::prelude::*;

    use super::*;

    /// Returns the frames of a body.
    fn frames(returned: Vec<Value>) -> Vec<Bytes> {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let mut body = ReturnedBody::new(returned);
            let mut frames = Vec::new();
            while let Some(frame) = body.frame().await {
                frames.push(frame.unwrap().into_data().unwrap());
            }
            frames
        })
    }

    #[test]
    fn returns_are_written_one_by_one() {
        let large = Value::from("x".repeat(FRAME));
        let minions = ["web1", "web2", "web3"].map(|id| (id, large.clone()));
        let returned = vec![Value::map(minions)];
        let whole = Value::map([("return", Value::List(returned.clone()))]);
        let frames = frames(returned);
        assert_eq!(frames.len(), 4);
        assert!(frames.iter().all(|frame| frame.len() < FRAME + 100));
        assert_eq!(frames.concat(), json::line(&whole));
    }

    #[test]
    fn a_short_answer_has_its_length() {
        let body = ReturnedBody::new(vec![Value::Bool(true)]);
        assert_eq!(body.size_hint().exact(), Some(18));
        let large = ReturnedBody::new(vec![Value::from("x".repeat(FRAME)), Value::Null]);
        assert_eq!(large.size_hint().exact(), None);
    }

    proptest! {
        #[test]
        fn the_text_is_that_of_the_whole_value(
            mut returned in proptest::collection::vec(saline_data::arbitrary::values(), 0..4),
        ) {
            for value in &mut returned {
                if let Value::Map(entries) = value {
                    entries.sort_by(|a, b| a.0.cmp(&b.0));
                    entries.dedup_by(|a, b| a.0 == b.0);
                }
            }
            let whole = Value::map([("return", Value::List(returned.clone()))]);
            prop_assert_eq!(frames(returned).concat(), json::line(&whole));
        }
    }
}
