use saline_protocol::transport::Limits;

use super::*;
use crate::StreamPipe;
use crate::pipe::Pipe;
use crate::server::tests::Bare;
use crate::wire::Greeting;
use crate::wire::frame::{ID, header};

/// The reader of a connection whose client has greeted.
fn reader(server: &Bare, number: u64) -> Reader<impl ReadPipe> {
    let limits = &server.core.lifetime.context.limits;
    let mut frames = FrameReader::of_client(limits);
    frames.push(&Greeting::of_client(limits).encode());
    assert!(matches!(frames.next(), Ok(Some(Frame::Greeting(_)))));
    let (pipe, _) = StreamPipe::from_halves(tokio::io::empty(), tokio::io::sink()).split();
    Reader::new(&server.connect(number), pipe, frames)
}

/// The same one, once so many bytes of a request with a large payload have come.
fn holding(server: &Bare, number: u64, held: usize) -> Reader<impl ReadPipe> {
    const LARGE: usize = 60_000;
    let mut reader = reader(server, number);
    reader.frames.push(&header(FrameKind::Request, LARGE));
    assert!(matches!(reader.frames.next(), Ok(None)));
    reader.frames.push(&vec![0; held]);
    assert_eq!(reader.frames.partial_bytes(), held);
    reader
}

#[tokio::test(start_paused = true)]
async fn only_those_are_cut_for_their_bytes_that_hold_more_than_a_handshake_needs() {
    const TOO_MUCH: usize = HANDSHAKE_ROOM + 1;
    let server = Bare::new(Limits::default());
    let mut limits = AdmissionLimits::default();
    limits.partial_bytes = 2 * TOO_MUCH;
    let admission = Admission(limits);
    let mut first = holding(&server, 1, TOO_MUCH);
    let mut second = holding(&server, 2, TOO_MUCH);
    let mut modest = holding(&server, 3, HANDSHAKE_ROOM);
    let mut third = holding(&server, 4, TOO_MUCH);
    assert!(admission.bound(&mut first).is_ok());
    assert!(
        admission.bound(&mut second).is_ok(),
        "all that there may be"
    );
    assert!(admission.bound(&mut modest).is_ok(), "room of its own");
    assert!(admission.bound(&mut third).is_err());
    drop(third);
    drop(modest);
    // Both connections have given back the bytes that they held.
    let mut all = 2 * TOO_MUCH;
    assert_eq!(first.report_partial(TOO_MUCH), all);
    all -= 1000;
    assert_eq!(first.report_partial(TOO_MUCH - 1000), all);
    let mut last = holding(&server, 5, 1000);
    assert!(admission.bound(&mut last).is_ok());
    assert_eq!(last.report_partial(1000), all + 1000);
    drop((first, second, last));
    assert_eq!(server.core.partial_bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_too_late_is_not_taken() {
    let server = Bare::new(Limits::default());
    let mut reader = reader(&server, 1);
    let mut request = header(FrameKind::Request, ID).to_vec();
    request.extend([0; ID]);
    let (mut requests, mut has_waited) = (Vec::new(), false);
    reader.frames.push(&request);
    let taken = reader.take_frames(&mut requests, &mut has_waited).await;
    assert!(taken.is_ok());
    assert_eq!(requests.len(), 1);
    server.core.lifetime.stop.cancel();
    reader.frames.push(&request);
    let taken = reader.take_frames(&mut requests, &mut has_waited).await;
    assert!(taken.is_ok());
    assert_eq!(requests.len(), 1);
}
