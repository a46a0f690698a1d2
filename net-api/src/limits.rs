//! What a client may cost.

use std::time::Duration;

/// The largest number of connections. Further ones wait in the queue of the system.
pub(crate) const MAX_CONNECTIONS: usize = 1_024;

/// The largest number of event streams, each of which has its connection to itself.
pub(crate) const MAX_EVENT_STREAMS: usize = 768;

/// The largest number of event streams of one user, each of which asks the master for itself.
pub(crate) const MAX_STREAMS_OF_USER: usize = 64;

/// The most logins that are under way at once.
pub(crate) const MAX_LOGINS: usize = 64;

/// How long a login may take: PAM waits for some seconds after a wrong password.
pub(crate) const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the end of a login may take that nobody waits for.
pub(crate) const LOGOUT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the master may take to be told to store the return of a run that nobody waits for any more.
pub(crate) const KEEP_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest head of a request in bytes, and the largest number of its headers.
pub(crate) const MAX_HEAD: usize = 32 * 1024;
pub(crate) const MAX_HEADERS: usize = 64;

/// How long a client may take for the handshake of TLS, the head of a request, and its body.
pub(crate) const TLS_TIMEOUT: Duration = Duration::from_secs(10);
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take nothing of what is written to it. `write_timeout.rs` has the rate below which it is cut too.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request may take to be answered; the second is for each chunk of a request that waits for the returns of minions and
/// runs. What takes longer goes on, and is found by its jid.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
pub(crate) const CHUNK_TIMEOUT: Duration = Duration::from_secs(600);

/// The largest number of chunks in one request.
pub(crate) const MAX_CHUNKS: usize = 100;
