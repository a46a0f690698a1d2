//! Listeners that bring an error instead of a connection.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use rustix::io::Errno;
use saline_protocol::transport::{Clock, Limits, Metric, Source};

use super::played::{ROOM, Serving};
use super::soon;

const SECOND: Duration = Duration::from_secs(1);

/// Returns how long clients wait after this error, beside somebody who has not greeted; and how many were refused.
async fn wait_after(error: Error) -> (Duration, u64) {
    let serving = Serving::new(Limits::default());
    let _waiting = serving.stranger(Source::User(1), ROOM).await;
    serving.bring(Err(error)).await;
    let begin = Clock.now();
    let mut peer = serving.stranger(Source::User(2), ROOM).await;
    let greeting = crate::wire::Greeting::of_client(&Limits::default());
    let until = Clock.after(3 * SECOND);
    let _ = Clock.deadline(until, peer.greet(greeting)).await;
    (
        Clock.now() - begin,
        serving.server.count(Metric::PeersRefused),
    )
}

#[tokio::test(start_paused = true)]
async fn an_error_about_one_connection_keeps_nobody_waiting() {
    let now = Duration::ZERO;
    assert_eq!(
        wait_after(ErrorKind::PermissionDenied.into()).await,
        (now, 1)
    );
    assert_eq!(
        wait_after(ErrorKind::ConnectionAborted.into()).await,
        (now, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn after_an_error_of_the_system_nothing_is_accepted_for_a_while() {
    let error = || Error::from(ErrorKind::OutOfMemory);
    assert_eq!(wait_after(error()).await, (3 * SECOND, 0));
}

#[tokio::test(start_paused = true)]
async fn without_a_descriptor_somebody_is_cut_and_clients_wait_a_moment() {
    let (took, refused) = wait_after(Errno::MFILE.into()).await;
    assert!(took >= Duration::from_millis(10) && took < Duration::from_millis(20));
    assert_eq!(refused, 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_descriptor_and_anybody_to_cut_nothing_is_accepted_for_a_while() {
    let serving = Serving::new(Limits::default());
    serving.bring(Err(Errno::NFILE.into())).await;
    let mut peer = serving.stranger(Source::Process, ROOM).await;
    let hears = Clock.deadline(Clock.after(3 * SECOND), peer.hears());
    assert!(hears.await.is_err());
    assert_eq!(serving.server.count(Metric::PeersRefused), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_is_at_once_what_was_asked_for() {
    use saline_protocol::transport::{Context, Endpoint, HostPort};

    struct Silent;
    impl crate::pipe::Listener for Silent {
        type Incoming = super::played::Arrival;

        async fn accept(&mut self) -> std::io::Result<super::played::Arrival> {
            std::future::pending().await
        }
    }

    let bound = Endpoint::network("tcp", HostPort::new("place", 1));
    let context = Context::default();
    let server = crate::serve(vec![Silent], bound.clone(), Some([7; 32]), context.clone());
    assert_eq!(server.control.certificate(), Some([7; 32]));
    assert_eq!(server.bound.requests, bound);
    assert!(!context.tracker.is_empty());
    soon(server.control.shutdown(SECOND)).await.unwrap();
    assert!(context.tracker.is_empty());
    let begin = crate::serve(vec![Silent], bound, None, context.clone());
    drop(begin);
    Clock.pause(SECOND).await;
    assert!(context.tracker.is_empty(), "nobody holds it any more");
}
