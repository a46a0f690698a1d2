//! How a buffer uses its connection and its memory; what comes out is in the other tests.

use super::*;
use std::task::Waker;

/// A connection that notes how it is used.
#[derive(Default)]
struct Noting {
    /// Bytes that it takes of a write; all of them when none is given.
    takes: Option<usize>,
    /// The pieces that it was offered at each write.
    offered: Vec<Vec<Bytes>>,
    flushes: usize,
    flush_is_pending: bool,
}

impl WritePipe for Noting {
    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let copied = pieces.iter().map(|piece| Bytes::copy_from_slice(piece));
        self.offered.push(copied.collect());
        let all = pieces.iter().map(|piece| piece.len()).sum();
        Poll::Ready(Ok(self.takes.unwrap_or(all).min(all)))
    }
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushes += 1;
        match self.flush_is_pending {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }
    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn write(buffer: &mut SendBuffer, pipe: &mut Noting) -> Poll<Option<bool>> {
    let mut cx = Context::from_waker(Waker::noop());
    buffer.poll_write(&mut cx, pipe).map(Result::ok)
}

#[test]
fn it_flushes_when_nothing_is_left_and_not_before() {
    let (mut buffer, mut pipe) = (SendBuffer::default(), Noting::default());
    buffer.copy(b"four");
    pipe.takes = Some(3);
    assert_eq!(write(&mut buffer, &mut pipe), Poll::Ready(Some(false)));
    assert_eq!((pipe.flushes, buffer.is_empty()), (0, false));
    pipe.flush_is_pending = true;
    assert_eq!(write(&mut buffer, &mut pipe), Poll::Pending);
    assert_eq!((pipe.flushes, buffer.is_empty()), (1, true));
    pipe.flush_is_pending = false;
    // Nothing is left to write, and the flush goes on.
    assert_eq!(write(&mut buffer, &mut pipe), Poll::Ready(Some(true)));
    assert_eq!((pipe.flushes, pipe.offered.len()), (2, 2));
}

#[test]
fn a_connection_that_takes_nothing_is_an_error() {
    let (mut buffer, mut pipe) = (SendBuffer::default(), Noting::default());
    buffer.copy(b"four");
    pipe.takes = Some(0);
    assert_eq!(write(&mut buffer, &mut pipe), Poll::Ready(None));
}

#[test]
fn small_payloads_are_joined_and_large_ones_stand_alone() {
    let (mut buffer, mut pipe) = (SendBuffer::default(), Noting::default());
    for size in [0, 4096, 4097, 10] {
        let payload = Bytes::from(vec![1; size]);
        buffer.frame(FrameKind::Ping, &[], &payload);
    }
    assert_eq!(write(&mut buffer, &mut pipe), Poll::Ready(Some(true)));
    let sizes: Vec<usize> = pipe.offered[0].iter().map(Bytes::len).collect();
    // The header of the large one belongs to what stands before it.
    assert_eq!(sizes, [5 + 5 + 4096 + 5, 4097, 5 + 10]);
}

#[test]
fn a_write_has_no_more_pieces_than_a_system_takes() {
    let (mut buffer, mut pipe) = (SendBuffer::default(), Noting::default());
    let payload = Bytes::from(vec![1; 5000]);
    for _ in 0..100 {
        buffer.bytes(&payload);
    }
    assert_eq!(write(&mut buffer, &mut pipe), Poll::Ready(Some(false)));
    assert_eq!(write(&mut buffer, &mut pipe), Poll::Ready(Some(true)));
    let pieces: Vec<usize> = pipe.offered.iter().map(Vec::len).collect();
    assert_eq!(pieces, [SLICES, 100 - SLICES]);
}

#[test]
fn memory_is_used_again_and_an_idle_buffer_keeps_little() {
    let (mut buffer, mut pipe) = (SendBuffer::default(), Noting::default());
    for _ in 0..1000 {
        buffer.copy(&[1; 1000]);
        assert_eq!(write(&mut buffer, &mut pipe), Poll::Ready(Some(true)));
    }
    assert!(buffer.small.capacity() < 10_000);
    buffer.copy(&vec![1; 1_000_000]);
    buffer.rest();
    assert_eq!((buffer.is_empty(), buffer.len()), (true, 0));
    assert_eq!((buffer.written(), buffer.end()), (2_000_000, 2_000_000));
    // So little that a server can have many of them.
    assert!(buffer.small.capacity() <= 4096);
    buffer.copy(b"again");
    assert_eq!(write(&mut buffer, &mut pipe), Poll::Ready(Some(true)));
    assert_eq!(pipe.offered.last().unwrap(), &[Bytes::from("again")]);
}

#[test]
fn what_was_taken_back_is_not_written() {
    let (mut buffer, mut pipe) = (SendBuffer::default(), Noting::default());
    buffer.copy(b"first");
    buffer.bytes(&Bytes::from(vec![1; 5000]));
    buffer.copy(b"third");
    buffer.truncate(5);
    assert_eq!((buffer.len(), buffer.end()), (5, 5));
    buffer.copy(b", last");
    assert_eq!(write(&mut buffer, &mut pipe), Poll::Ready(Some(true)));
    assert_eq!(pipe.offered[0].concat(), b"first, last");
}
