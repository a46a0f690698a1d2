//! Frames that wait to be written on one connection, put together so that one write sends many.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::task::{Context, Poll, ready};

use super::frame::{FrameKind, HEADER, ID, REQUEST_HEADER, header};
use crate::pipe::WritePipe;
use bytes::{Buf, Bytes};

/// How much is put together before it is written.
pub(crate) const BOUNDARY: usize = 128 * 1024;
/// Payloads up to this size are copied, larger ones are written from where they are.
const COPY: usize = 4 * 1024;
/// How many pieces one call of the system takes.
const SLICES: usize = 64;
/// An idle connection keeps no more than this.
const IDLE: usize = 512;

/// Frames in the order in which they are written.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    small: Vec<u8>,
    pieces: VecDeque<Piece>,
    /// Bytes written, and bytes put in, since the buffer was made.
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

impl SendBuffer {
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

    /// Returns the offset at which the next frame begins.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Adds a frame whose body is `fields` and `payload`.
    pub(crate) fn frame(&mut self, kind: FrameKind, fields: &[u8], payload: &Bytes) {
        self.copy(&header(kind, fields.len() + payload.len()));
        self.copy(fields);
        self.bytes(payload);
    }

    /// Adds a frame whose body is the number of a request and `payload`.
    pub(crate) fn message(&mut self, kind: FrameKind, id: u64, payload: &Bytes) {
        let mut head = [0; REQUEST_HEADER];
        head[..HEADER].copy_from_slice(&header(kind, ID + payload.len()));
        head[HEADER..].copy_from_slice(&id.to_le_bytes());
        if payload.len() > COPY {
            self.copy(&head);
            return self.bytes(payload);
        }
        self.small.reserve(REQUEST_HEADER + payload.len());
        let start = self.small.len();
        self.small.extend_from_slice(&head);
        self.small.extend_from_slice(payload);
        self.added(start);
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
        self.added(start);
    }

    /// Takes note of what was put behind `start` of `small`.
    fn added(&mut self, start: usize) {
        self.end += (self.small.len() - start) as u64;
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

    /// Writes once, and flushes when nothing is left. Resolves with whether that was all of it; more
    /// than nothing was written when it is ready and nothing failed.
    pub(crate) fn poll_write<W: WritePipe>(
        &mut self,
        cx: &mut Context<'_>,
        pipe: &mut W,
    ) -> Poll<io::Result<bool>> {
        if let Some(first) = self.pieces.front() {
            let written = match first {
                Piece::Large(bytes) if pipe.keeps_shared_memory() => {
                    ready!(pipe.poll_write_shared(cx, bytes))?
                }
                _ => {
                    let mut slices = [IoSlice::new(&[]); SLICES];
                    let count = self.gather(&mut slices, pipe);
                    ready!(pipe.poll_write(cx, &slices[..count]))?
                }
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
            if !self.pieces.is_empty() {
                return Poll::Ready(Ok(false));
            }
        }
        pipe.poll_flush(cx).map_ok(|()| true)
    }

    /// Collects the pieces at the front that `pipe` takes in one write. Returns how many they are.
    fn gather<'a, W: WritePipe>(&'a self, slices: &mut [IoSlice<'a>; SLICES], pipe: &W) -> usize {
        let (mut count, mut left) = (0, pipe.largest_write().max(1));
        let keeps_shared_memory = pipe.keeps_shared_memory();
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            if keeps_shared_memory && matches!(piece, Piece::Large(_)) {
                break;
            }
            let bytes = piece.slice(&self.small);
            let bytes = &bytes[..bytes.len().min(left)];
            *slice = IoSlice::new(bytes);
            count += 1;
            left -= bytes.len();
            if left == 0 {
                break;
            }
        }
        count
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
        keeps_shared_memory: bool,
        /// Where the bytes were that came to be kept.
        shared: Vec<usize>,
    }

    impl Trickle {
        fn new(most: usize, keeps_shared_memory: bool) -> Self {
            Self {
                most,
                taken: Vec::new(),
                keeps_shared_memory,
                shared: Vec::new(),
            }
        }
    }

    impl WritePipe for Trickle {
        fn keeps_shared_memory(&self) -> bool {
            self.keeps_shared_memory
        }
        fn poll_write_shared(
            &mut self,
            _: &mut Context<'_>,
            bytes: &Bytes,
        ) -> Poll<io::Result<usize>> {
            assert!(self.keeps_shared_memory);
            self.shared.push(bytes.as_ptr().addr());
            let count = bytes.len().min(self.most);
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }
        fn largest_write(&self) -> usize {
            self.most
        }
        fn poll_write(
            &mut self,
            _: &mut Context<'_>,
            pieces: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let before = self.taken.len();
            for piece in pieces {
                self.taken.extend_from_slice(piece);
            }
            let count = self.taken.len() - before;
            assert!((1..=self.most).contains(&count));
            Poll::Ready(Ok(count))
        }
        fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_pipe_that_keeps_memory_gets_large_payloads_where_they_are() {
        let payload = Bytes::from(vec![7; COPY + 1]);
        for keeps in [true, false] {
            let mut cx = Context::from_waker(Waker::noop());
            let mut pipe = Trickle::new(usize::MAX, keeps);
            let mut buffer = SendBuffer::default();
            buffer.frame(FrameKind::Request, &[1; 8], &payload);
            buffer.frame(FrameKind::Ping, &[], &Bytes::new());
            while !buffer.is_empty() {
                assert!(buffer.poll_write(&mut cx, &mut pipe).is_ready());
            }
            let expected = if keeps {
                vec![payload.as_ptr().addr()]
            } else {
                vec![]
            };
            assert_eq!(pipe.shared, expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_was_put_in(
            payloads in prop::collection::vec((any::<u8>(), 0usize..9000), 1..20),
            most in 1usize..20_000,
            keep in 0usize..20,
            before in 0usize..5,
            keeps_shared_memory: bool,
        ) {
            let mut cx = Context::from_waker(Waker::noop());
            let mut pipe = Trickle::new(most, keeps_shared_memory);
            let (mut buffer, mut expected, mut starts) = (SendBuffer::default(), Vec::new(), Vec::new());
            for (byte, size) in &payloads {
                starts.push(buffer.end());
                let payload = Bytes::from(vec![*byte; *size]);
                // Both ways to write the same frame.
                match byte % 2 == 0 {
                    true => buffer.frame(FrameKind::Request, &[1; 8], &payload),
                    false => buffer.message(FrameKind::Request, u64::from_le_bytes([1; 8]), &payload),
                }
                expected.extend_from_slice(&header(FrameKind::Request, 8 + size));
                expected.extend_from_slice(&[1; 8]);
                expected.extend_from_slice(&payload);
                prop_assert_eq!(buffer.end(), expected.len() as u64);
            }
            for _ in 0..before {
                let _ = buffer.poll_write(&mut cx, &mut pipe);
            }
            // Whatever was not begun can be taken back, at the border of a frame.
            if let Some(start) = starts.get(keep).filter(|start| **start >= buffer.written()) {
                buffer.truncate(*start);
                expected.truncate(*start as usize);
            }
            prop_assert_eq!(buffer.len(), expected.len() - pipe.taken.len());
            // And others can follow.
            buffer.frame(FrameKind::Ping, &[], &Bytes::new());
            expected.extend_from_slice(&header(FrameKind::Ping, 0));
            while !buffer.is_empty() {
                prop_assert!(buffer.poll_write(&mut cx, &mut pipe).is_ready());
            }
            prop_assert_eq!(pipe.taken, expected);
        }
    }
}

#[cfg(test)]
mod write_tests;
