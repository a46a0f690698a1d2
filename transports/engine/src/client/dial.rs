//! Finding a server and greeting it.

use std::future::poll_fn;
use std::io;

use saline_protocol::transport::{Context, Endpoint, Error, ErrorKind, Instant, Result};

use crate::net::{Candidate, DialFailures};
use crate::pipe::{Dialer, Pipe};
use crate::wire::{Bounds, Frame, FrameReader, Greeting, SendBuffer, VERSIONS, Violation};

/// A connection whose server has greeted.
#[derive(Debug)]
pub(super) struct Connection<P: Pipe> {
    pub(super) read: P::Read,
    pub(super) write: P::Write,
    pub(super) frames: FrameReader,
    pub(super) server: Greeting,
    /// SHA-256 of the certificate that the server showed.
    pub(super) certificate: Option<[u8; 32]>,
    /// The place at which it was reached.
    pub(super) place: String,
}

/// Tries every candidate of `endpoint` once, in order, until `until`.
///
/// # Errors
/// `Unreachable` when none answers; `Config` when the endpoint can have none.
///
/// # Cancel safety
/// When the future is dropped, nothing stays connected.
pub(super) async fn dial<D: Dialer>(
    dialer: &D,
    endpoint: &Endpoint,
    context: &Context,
    until: Instant,
) -> Result<Connection<D::Pipe>> {
    let clock = context.clock;
    let mut failures = DialFailures::default();
    let found = clock.deadline(until, dialer.candidates(endpoint)).await;
    let Ok(found) = found else {
        return Err(failures.into_error(endpoint));
    };
    let found = found?;
    for (index, candidate) in found.iter().enumerate() {
        // One that does not answer leaves time for those behind it.
        let left = u32::try_from(found.len() - index).unwrap_or(u32::MAX);
        let now = clock.now();
        let share = now + until.saturating_duration_since(now) / left;
        let connecting = connect(dialer, candidate, context);
        match clock.deadline(share, connecting).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => failures.add(candidate, error),
            Err(_) => failures.add(candidate, unreachable("no answer in time")),
        }
    }
    failures.add_unresolved(endpoint, &found);
    Err(failures.into_error(endpoint))
}

async fn connect<D: Dialer>(
    dialer: &D,
    candidate: &Candidate,
    context: &Context,
) -> Result<Connection<D::Pipe>> {
    let pipe = dialer
        .dial(candidate)
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => {
                Error::new(ErrorKind::Config, error.to_string()).with_source(error)
            }
            io::ErrorKind::InvalidData => unreachable(&error).with_source(error),
            _ => unreachable(format!("cannot connect: {error}")).with_source(error),
        })?;
    let until = context.clock.after(context.limits.handshake_timeout);
    let greeting = greet(pipe, candidate, context);
    let greeted = context.clock.deadline(until, greeting).await;
    match greeted {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(Failed::Broken(error))) if error.kind() == io::ErrorKind::InvalidData => {
            Err(unreachable(&error).with_source(error))
        }
        Ok(Err(Failed::Broken(error))) => {
            Err(unreachable(foreign("the connection broke")).with_source(error))
        }
        Ok(Err(Failed::Foreign(why))) => Err(unreachable(foreign(&why))),
        Ok(Err(Failed::Refused(why))) => Err(unreachable(why)),
        Err(_) => Err(unreachable("nobody answers the greeting")),
    }
}

/// The reason why a connection was not established.
enum Failed {
    Broken(io::Error),
    /// The server did not greet as one of the engine's does.
    Foreign(String),
    Refused(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// Adds to what went wrong at the greeting why that usually is.
fn foreign(why: &str) -> String {
    format!("{why} before a greeting came: is `transport` the same at both ends?")
}

impl From<&str> for Failed {
    fn from(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

async fn greet<P: Pipe>(
    pipe: P,
    candidate: &Candidate,
    context: &Context,
) -> Result<Connection<P>, Failed> {
    let certificate = pipe.peer_certificate();
    let (mut read, mut write) = pipe.split();
    let mut frames = FrameReader::new(Bounds::client(&context.limits));
    let mut buffer = SendBuffer::default();
    buffer.copy(&Greeting::of_client(&context.limits).encode());
    loop {
        match poll_fn(|cx| buffer.poll_write(cx, &mut write)).await {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => {
                // A server that refuses our certificate has said so after its own handshake.
                let told = frames.fill(&mut read).await.err();
                let told = told.filter(|told| told.kind() == io::ErrorKind::InvalidData);
                return Err(told.unwrap_or(error).into());
            }
        }
    }
    loop {
        match frames.next() {
            Ok(Some(Frame::Greeting(server))) => {
                return match VERSIONS.common(server.versions) {
                    Some(_) => Ok(Connection {
                        read,
                        write,
                        frames,
                        server,
                        certificate,
                        place: candidate.to_string(),
                    }),
                    None => Err(Failed::Refused(format!(
                        "the server speaks {} of the wire, this end {VERSIONS}: upgrade the older one",
                        server.versions
                    ))),
                };
            }
            Ok(Some(_)) => return Err("the server holds as many connections as it may".into()),
            Ok(None) => {}
            Err(_) if frames.looks_like_tls() => {
                return Err("the server speaks TLS, and ssl is not set here".into());
            }
            Err(Violation(why)) => return Err(Failed::Foreign(why.to_owned())),
        }
        if frames.fill(&mut read).await? == 0 {
            return Err(Failed::Foreign("the connection was closed".to_owned()));
        }
    }
}

fn unreachable(why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unreachable, why.to_string())
}
