//! Which places are tried for how long, and what a caller is told that reaches none.

use std::io::{self, ErrorKind as Io};
use std::time::Duration;

use saline_protocol::transport::{Clock, Context, Error, ErrorKind, Limits};

use super::super::dial::dial;
use super::{ScriptedDialer, ScriptedPipe, endpoint};
use crate::lock;
use crate::wire::frame::header;
use crate::wire::{FrameKind, Greeting, VERSIONS};

const SECOND: Duration = Duration::from_secs(1);

fn failure(kind: Io, why: &str) -> io::Error {
    io::Error::new(kind, why)
}

/// Dials one place, where this comes of it.
async fn dial_one(attempt: io::Result<ScriptedPipe>) -> Error {
    let dialer = ScriptedDialer::new(1, [attempt]);
    let mut context = Context::default();
    context.limits.handshake_timeout = SECOND;
    let until = Clock.after(10 * SECOND);
    let dialed = dial(&dialer, &endpoint(), &context, until).await;
    dialed.err().unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_place_has_its_share_of_the_time_that_is_left() {
    // The second one fails at once, and leaves its time to those behind it.
    let gone = || Err(failure(Io::ConnectionRefused, "gone"));
    for (first, expected) in [(None, [0, 3, 6]), (Some(gone()), [0, 0, 4])] {
        let dialer = ScriptedDialer::new(3, first);
        let begin = Clock.now();
        let until = begin + 9 * SECOND;
        let dialed = dial(&dialer, &endpoint(), &Context::default(), until).await;
        let error = dialed.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.context().ends_with("no answer in time"));
        let at = |dialed: &tokio::time::Instant| (*dialed - begin).as_secs();
        let tried = lock(&dialer.dialed).iter().map(at).collect::<Vec<_>>();
        assert_eq!(tried, expected);
        assert_eq!(Clock.now(), until);
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_cannot_be_dialed_says_why() {
    let why = "no such curve";
    for (kind, told, text) in [
        (Io::InvalidInput, ErrorKind::Config, why),
        (Io::InvalidData, ErrorKind::Unreachable, why),
        (
            Io::ConnectionRefused,
            ErrorKind::Unreachable,
            "cannot connect: no such curve",
        ),
    ] {
        let error = dial_one(Err(failure(kind, why))).await;
        assert_eq!(error.kind(), told);
        assert_eq!(error.context(), format!("tcp://place:1: {text}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_greet_is_told_by_what_it_says() {
    let why = "its certificate has expired";
    let mut other = Greeting::of_server(&Limits::default());
    other.versions.lowest = 7;
    other.versions.highest = 8;
    let foreign =
        |why: &str| format!("{why} before a greeting came: is `transport` the same at both ends?");
    let table = [
        (Err(failure(Io::InvalidData, why)), why.to_owned()),
        (
            Err(failure(Io::ConnectionReset, "reset")),
            foreign("the connection broke"),
        ),
        (Ok(Vec::new()), foreign("the connection was closed")),
        (
            Ok(b"220 mail.example.org ESMTP".to_vec()),
            foreign("a frame of an unknown kind"),
        ),
        (
            Ok(vec![0x15, 3, 3, 0, 2, 2, 70]),
            "the server speaks TLS, and ssl is not set here".to_owned(),
        ),
        (
            Ok(header(FrameKind::Full, 0).to_vec()),
            "the server holds as many connections as it may".to_owned(),
        ),
        (
            Ok(other.encode()),
            format!(
                "the server speaks versions 7 to 8 of the wire, this end {VERSIONS}: upgrade the older one"
            ),
        ),
    ];
    for (said, told) in table {
        let error = dial_one(Ok(ScriptedPipe::saying([said]))).await;
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert_eq!(error.context(), format!("tcp://place:1: {told}"));
    }
    let begin = Clock.now();
    let error = dial_one(Ok(ScriptedPipe::saying([]))).await;
    assert!(error.context().ends_with("nobody answers the greeting"));
    assert_eq!(Clock.now() - begin, SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_greeting_is_asked_why() {
    for (said, told) in [
        (
            failure(Io::InvalidData, "it wants a certificate"),
            "it wants a certificate",
        ),
        (
            failure(Io::ConnectionReset, "reset"),
            "the connection broke before a greeting came: is `transport` the same at both ends?",
        ),
    ] {
        let mut pipe = ScriptedPipe::saying([Err(said)]);
        pipe.takes.refuses = Some(Io::BrokenPipe);
        let error = dial_one(Ok(pipe)).await;
        assert_eq!(error.context(), format!("tcp://place:1: {told}"));
    }
}
