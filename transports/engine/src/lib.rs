//! Everything above a connection that Saline's transports share.
//!
//! A backend over a connection supplies its [`Connections`]: a [`Dialer`] and a [`Listener`], whose
//! connections are a [`Pipe`] each. [`serve`] and [`connect`] make the contract's server and client
//! of them: pending requests, subscriptions that survive a reconnect, counted losses, outbound
//! queues, keepalive, reconnecting and an orderly end.
//!
//! A backend over a messaging system implements the contract itself, and takes single parts:
//! [`Lifetime`], [`Attempts`], [`delivery_queue()`], [`departure_queue()`], [`ClientRequests`], [`IdleTimer`].
//!
//! | module | holds |
//! |---|---|
//! | [`pipe`](Pipe) | what a backend supplies |
//! | [`net`] | resolving, binding, and the files of Unix sockets |
//! | `wire` | frames, and the buffers that they are read from and written to |
//! | `state` | the state machines: they take events and the time, and do no input or output |
//! | [`shared_socket`] | virtual connections over a socket of datagrams, for backends that have no other |
//! | `client`, `server` | drive the state machines with Tokio |
//! | `fuzzing` | the reader of frames and a shared socket, for the fuzz targets |
//!
//! # A message's walk
//!
//! 1. A caller's request goes into `state::PendingRequests` and wakes the writer of the client's
//!    connection, which takes what is queued, stages it (`StagedRequests`) and writes it in one call. A
//!    request whose first byte the pipe accepted is *sent*; one that is only staged is taken back when
//!    its caller goes, its deadline passes or the connection is lost.
//! 2. The server's reader decodes frames (`wire::FrameReader`), takes a permit for each request
//!    (`state::Inbox`) and queues it for the handler. The answer goes into the connection's
//!    `state::OutboundQueue`, in front of publications.
//! 3. A publication is encoded once. `state::Hub` finds its subscribers in one sorted index and queues
//!    it for each connection. A queue that is full drops for its connection alone, counts for each
//!    subscription, and tells the loss at its place.
//! 4. `client::supervisor` serves a connection until it ends, tells subscribers of the change, and
//!    dials again with backoff. Every subscription is announced on the new connection; one that the
//!    server refuses there ends, alone.
//! 5. Both ends ping when they were silent, and judge silence by `state::IdleTimer`.
//!
//! The engine does not serve a messaging system, which has no connection to give: zeromq keeps libzmq's
//! publications, which are numbered because libzmq drops silently. It does not serve several streams of
//! one connection either: over QUIC a large message delays those behind it on its connection, and large
//! returns travel in parts.

mod alarm;
mod attempts;
mod client;
mod delivery_queue;
mod departure_queue;
#[doc(hidden)]
pub mod fuzzing;
mod lifetime;
pub mod net;
mod pipe;
mod server;
pub mod shared_socket;
mod state;
mod stream_pipe;
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

pub use attempts::Attempts;
pub use client::{ClientRequests, connect};
pub use delivery_queue::{DeliveryReceiver, DeliverySender, delivery_queue};
pub use departure_queue::{DepartureReceiver, DepartureSender, departure_queue};
pub use lifetime::Lifetime;
pub use pipe::{Connections, Dialer, Incoming, Listener, Pipe, ReadPipe, SignsOfLife, WritePipe};
pub use server::serve;
pub use state::{IdleTimer, Keepalive, PendingRequests, PingTimer, QueuedRequest, Unsent};
pub use stream_pipe::StreamPipe;

/// How long after the deadline of a shutdown tasks may still take to notice it.
const GRACE: Duration = Duration::from_secs(1);
/// How long an end takes to say goodbye on a connection that does not take it at once.
const FAREWELL: Duration = Duration::from_millis(250);

/// Locks `mutex`. Every state in this crate is consistent after each statement, so a panic elsewhere
/// does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the other tasks turns for as long as each adds to what was `gathered`: a write costs much more
/// than a message in it, and whoever queues the first of a burst wakes the writer before the others
/// have queued theirs. It ends when a batch has come together, of which `wake` tells.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
async fn gather(wake: &Notify, gathered: impl Fn() -> Option<usize>) {
    let first = gathered();
    let mut before = first;
    while let (Some(first), Some(last)) = (first, before)
        && last.wrapping_sub(first) < wire::BOUNDARY
    {
        tokio::select! {
            biased;
            () = wake.notified() => return,
            () = tokio::task::yield_now() => {}
        }
        let now = gathered();
        if now == before {
            return;
        }
        before = now;
    }
}
