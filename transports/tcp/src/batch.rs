//! What one connection writes: frames put together, so that one call of the system sends many.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use crate::frame::{Kind, Publication, header};

/// How much is put together before it is written.
pub(crate) const BOUNDARY: usize = 128 * 1024;
/// Payloads up to this size are copied, larger ones are written from where they are.
const COPY: usize = 4 * 1024;
/// How many pieces one call of the system takes.
const SLICES: usize = 64;
/// An idle connection keeps no more than this.
const IDLE: usize = 4 * 1024;

/// Frames in the order in which they are written.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    small: Vec<u8>,
    pieces: VecDeque<Piece>,
    /// Bytes written, and bytes put in, since the batch was made.
    written: u64,
    end: u64,
}

#[derive(Debug)]
enum Piece {
    /// A part of `small`.
    Small(Range<usize>),
    Large(Bytes),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Small(range) => range.len(),
            Self::Large(bytes) => bytes.len(),
        }
    }

    fn slice<'a>(&'a self, small: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Small(range) => &small[range.clone()],
            Self::Large(bytes) => bytes,
        }
    }
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The bytes that wait to be written.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.end - self.written).unwrap_or(usize::MAX)
    }

    /// How many bytes were written, as [`end`](Self::end) counts.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Where the next frame begins.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Adds a frame whose body is `fields` and `payload`.
    pub(crate) fn frame(&mut self, kind: Kind, fields: &[u8], payload: &Bytes) {
        self.copy(&header(kind, fields.len() + payload.len()));
        self.copy(fields);
        self.bytes(payload);
    }

    /// Adds a publication.
    pub(crate) fn publication(&mut self, publication: &Publication) {
        self.bytes(&publication.head);
        self.bytes(&publication.tail);
    }

    /// Adds bytes, copied only if they are few.
    pub(crate) fn bytes(&mut self, bytes: &Bytes) {
        if bytes.len() <= COPY {
            self.copy(bytes);
        } else {
            self.end += bytes.len() as u64;
            self.pieces.push_back(Piece::Large(bytes.clone()));
        }
    }

    /// Adds bytes by copying them.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let start = self.small.len();
        self.small.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
        match self.pieces.back_mut() {
            Some(Piece::Small(range)) if range.end == start => range.end = self.small.len(),
            _ => {
                let range = start..self.small.len();
                self.pieces.push_back(Piece::Small(range));
            }
        }
    }

    /// Takes back what is behind `position`, none of which was written.
    pub(crate) fn truncate(&mut self, position: u64) {
        while self.end > position {
            let surplus = self.end - position;
            let Some(last) = self.pieces.back_mut() else {
                return;
            };
            let length = last.len();
            let keep = length.saturating_sub(usize::try_from(surplus).unwrap_or(usize::MAX));
            self.end -= (length - keep) as u64;
            match last {
                _ if keep == 0 => drop(self.pieces.pop_back()),
                Piece::Small(range) => {
                    range.end = range.start + keep;
                    self.small.truncate(range.end);
                }
                Piece::Large(bytes) => bytes.truncate(keep),
            }
        }
    }

    /// Forgets everything, and gives back the memory that an idle connection does not need.
    pub(crate) fn rest(&mut self) {
        self.pieces.clear();
        self.written = self.end;
        self.small.clear();
        self.small.shrink_to(IDLE);
    }

    /// Writes once. More than nothing is written when it is ready and nothing failed.
    pub(crate) fn poll_write<W>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut W,
    ) -> Poll<io::Result<()>>
    where
        W: AsyncWrite + Unpin,
    {
        let stream = Pin::new(stream);
        let written = match self.pieces.len() {
            0 => return Poll::Ready(Ok(())),
            1 => ready!(stream.poll_write(cx, self.pieces[0].slice(&self.small)))?,
            _ => {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let count = self.pieces.len().min(SLICES);
                for (to, piece) in slices.iter_mut().zip(&self.pieces) {
                    *to = IoSlice::new(piece.slice(&self.small));
                }
                ready!(stream.poll_write_vectored(cx, &slices[..count]))?
            }
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.advance(written);
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        self.written += written as u64;
        while written > 0 {
            let Some(first) = self.pieces.front_mut() else {
                return;
            };
            let length = first.len();
            if written < length {
                match first {
                    Piece::Small(range) => range.start += written,
                    Piece::Large(bytes) => bytes.advance(written),
                }
                return;
            }
            written -= length;
            self.pieces.pop_front();
        }
        if self.pieces.is_empty() {
            self.small.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::task::Waker;

    /// Takes so many bytes at a time.
    struct Trickle {
        most: usize,
        taken: Vec<u8>,
    }

    impl AsyncWrite for Trickle {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.most);
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_was_put_in(
            payloads in prop::collection::vec((any::<u8>(), 0usize..9000), 1..20),
            most in 1usize..20_000,
            keep in 0usize..20,
            before in 0usize..5,
        ) {
            let mut cx = Context::from_waker(Waker::noop());
            let mut stream = Trickle { most, taken: Vec::new() };
            let (mut batch, mut expected, mut starts) = (Batch::default(), Vec::new(), Vec::new());
            for (byte, size) in &payloads {
                starts.push(batch.end());
                let payload = Bytes::from(vec![*byte; *size]);
                batch.frame(Kind::Request, &[1; 8], &payload);
                expected.extend_from_slice(&header(Kind::Request, 8 + size));
                expected.extend_from_slice(&[1; 8]);
                expected.extend_from_slice(&payload);
                prop_assert_eq!(batch.end(), expected.len() as u64);
            }
            for _ in 0..before {
                let _ = batch.poll_write(&mut cx, &mut stream);
            }
            // Whatever was not begun can be taken back, at the border of a frame.
            if let Some(start) = starts.get(keep).filter(|start| **start >= batch.written()) {
                batch.truncate(*start);
                expected.truncate(*start as usize);
            }
            prop_assert_eq!(batch.len(), expected.len() - stream.taken.len());
            // And others can follow.
            batch.frame(Kind::Ping, &[], &Bytes::new());
            expected.extend_from_slice(&header(Kind::Ping, 0));
            while !batch.is_empty() {
                prop_assert!(batch.poll_write(&mut cx, &mut stream).is_ready());
            }
            prop_assert_eq!(stream.taken, expected);
        }
    }
}
