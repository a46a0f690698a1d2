//! Reading from a connection: how much at once, and what is kept.

use super::super::frame::header;
use super::super::greeting::Greeting;
use super::*;
use saline_protocol::transport::{AdmissionLimits, Limits};
use std::pin::pin;
use std::task::Waker;

/// A connection that has at most so many bytes at each read.
struct Arriving {
    bytes: Bytes,
    most: usize,
    /// The room that it was offered.
    offered: Vec<usize>,
}

impl ReadPipe for Arriving {
    fn poll_read(&mut self, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.offered.push(into.remaining());
        let count = self.most.min(into.remaining()).min(self.bytes.len());
        into.put_slice(&self.bytes.split_to(count));
        Poll::Ready(Ok(()))
    }
}

fn arriving(bytes: Vec<u8>, most: usize) -> Arriving {
    Arriving {
        bytes: bytes.into(),
        most,
        offered: Vec::new(),
    }
}

fn fill(reader: &mut FrameReader, pipe: &mut Arriving) -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    match pin!(reader.fill(pipe)).poll(&mut cx) {
        Poll::Ready(read) => read.unwrap(),
        Poll::Pending => panic!("there is always something"),
    }
}

fn reader() -> FrameReader {
    let mut bounds = Bounds::server(&Limits::default());
    bounds.greeted = true;
    FrameReader::new(bounds)
}

fn request(size: usize) -> Vec<u8> {
    let header = header(FrameKind::Request, 8 + size);
    [&header[..], &[1; 8], &vec![2; size]].concat()
}

fn ping() -> Vec<u8> {
    header(FrameKind::Ping, 0).to_vec()
}

#[test]
fn every_byte_that_arrives_is_in_a_frame_or_still_partial() {
    let sizes = [0, 10, SMALL - 8, SMALL - 7, 300_000, 10, 70_000, 20_000, 3];
    let bytes: Vec<u8> = sizes.into_iter().flat_map(request).collect();
    for most in [1, 100, 4096, 10_000, usize::MAX] {
        let (mut reader, mut pipe) = (reader(), arriving(bytes.clone(), most));
        let (mut arrived, mut done, mut found) = (0, 0, Vec::new());
        loop {
            let read = fill(&mut reader, &mut pipe);
            arrived += read;
            while let Some(frame) = reader.next().unwrap() {
                let Frame::Request { payload, .. } = frame else {
                    panic!("{frame:?}");
                };
                done += HEADER + 8 + payload.len();
                found.push(payload.len());
            }
            // The header of a large frame is gone when its body begins.
            let partial = arrived - done;
            let header = if reader.large.is_some() { HEADER } else { 0 };
            assert_eq!(reader.partial_bytes(), partial - header);
            if let Some(large) = &reader.large {
                let most = (2 * large.body.len())
                    .max(MAX_CAPACITY)
                    .min(large.length.max(MAX_CAPACITY));
                assert!(
                    large.body.capacity() <= 2 * most,
                    "more memory than has arrived"
                );
            }
            if read == 0 {
                break;
            }
        }
        assert_eq!(
            (arrived, &found[..]),
            (bytes.len(), &sizes[..]),
            "reads of {most}"
        );
        assert_eq!(reader.partial_bytes(), 0);
    }
}

#[test]
fn a_large_frame_is_read_into_its_own_memory_and_no_further() {
    let bytes = [request(1_000_000), request(5)].concat();
    let (mut reader, mut pipe) = (reader(), arriving(bytes, usize::MAX));
    let mut reads = 0;
    while reader.next().unwrap().is_none() {
        fill(&mut reader, &mut pipe);
        reads += 1;
    }
    // Room doubles, so that it takes few reads; none was larger than what was missing.
    assert!(reads < 10, "{reads} reads");
    assert_eq!(pipe.bytes.len(), request(5).len());
    assert!(reader.large.is_none() && reader.buffer.is_empty());
}

#[test]
fn a_busy_connection_reads_much_at_once_and_an_idle_one_keeps_nothing() {
    let bytes = request(100).repeat(10_000);
    let (mut reader, mut pipe) = (reader(), arriving([bytes, ping()].concat(), usize::MAX));
    while fill(&mut reader, &mut pipe) > 0 {
        while reader.next().unwrap().is_some() {}
        if !pipe.bytes.is_empty() && pipe.offered.len() > 3 {
            assert_eq!(reader.room, 64 * 1024);
        }
    }
    assert!(pipe.offered[0] <= 4096);
    let most = pipe.offered.iter().max();
    assert!(most.is_some_and(|most| (65_536..200_000).contains(most)));
    // The ping came last, and nothing behind it.
    assert_eq!(reader.room, IDLE_CAPACITY);
    assert!(reader.buffer.capacity() <= 4096);
}

#[test]
fn a_connection_that_says_little_keeps_a_small_buffer() {
    let (mut reader, mut pipe) = (reader(), arriving(request(50).repeat(1000), 100));
    while fill(&mut reader, &mut pipe) > 0 {
        while reader.next().unwrap().is_some() {}
        assert_eq!(reader.room, IDLE_CAPACITY);
    }
    assert!(pipe.offered.iter().all(|offered| *offered < 16_384));
}

/// A ping among other frames says nothing about an idle link: the rest is not lost.
#[test]
fn a_ping_with_more_behind_it_loses_nothing() {
    let mut bytes = request(10).repeat(10_000);
    bytes.extend([ping(), request(15_000), ping()].concat());
    for most in [64, 1000, usize::MAX] {
        let (mut reader, mut pipe) = (reader(), arriving(bytes.clone(), most));
        let mut frames = 0;
        while fill(&mut reader, &mut pipe) > 0 {
            while reader.next().unwrap().is_some() {
                frames += 1;
            }
        }
        assert_eq!(frames, 10_003);
    }
}

#[test]
fn small_frames_that_came_together_share_their_memory() {
    let mut reader = reader();
    reader.push(&request(100).repeat(3));
    let mut ends = Vec::new();
    while let Some(Frame::Request { payload, .. }) = reader.next().unwrap() {
        ends.push(payload.as_ptr() as usize);
    }
    let distance = request(100).len();
    assert_eq!((ends[1] - ends[0], ends[2] - ends[1]), (distance, distance));
    // One alone is kept alone, and more than a page is not kept together.
    reader.push(&request(100).repeat(1000));
    assert!(reader.next().unwrap().is_some());
    let page = reader.page.len() + distance;
    assert!((PAGE - distance..=PAGE).contains(&page), "{page}");
}

#[test]
fn limits_rise_when_the_peer_is_admitted() {
    let mut limits = Limits::default();
    let mut admission = AdmissionLimits::default();
    admission.max_message = 10;
    limits.admission = Some(admission);
    let stranger = || {
        let mut reader = FrameReader::of_client(&limits);
        reader.push(&Greeting::of_client(&limits).encode());
        assert!(matches!(reader.next(), Ok(Some(Frame::Greeting(_)))));
        reader
    };
    let mut reader = stranger();
    reader.push(&request(10));
    assert!(matches!(reader.next(), Ok(Some(_))));
    reader.admit(&limits);
    reader.push(&request(11));
    assert!(matches!(reader.next(), Ok(Some(_))));
    let mut reader = stranger();
    reader.push(&request(11));
    assert!(reader.next().is_err());
}

#[test]
fn tls_is_recognized() {
    let looks = |bytes: &[u8]| {
        let mut reader = FrameReader::new(Bounds::client(&Limits::default()));
        reader.push(bytes);
        assert!(!matches!(reader.next(), Ok(Some(_))) || bytes.len() > 10);
        reader.looks_like_tls()
    };
    assert!(looks(&[0x16, 3, 1, 2, 0, 1]) && looks(&[0x15, 3, 3, 0, 2]));
    assert!(!looks(&[0x14, 3, 1, 2, 0, 1]) && !looks(&[0x16, 2, 1, 2, 0]) && !looks(&[0x16, 3]));
    assert!(!looks(&Greeting::new(&Limits::default()).encode()));
}
