//! A connection that stands, what the client tells of it, and its end.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saline_protocol::transport::{Client, Clock, Context, Counters, Metric};

use super::super::connect;
use super::{ScriptedDialer, ScriptedPipe, endpoint};
use crate::FAREWELL;
use crate::wire::FrameKind;
use crate::wire::frame::header;

const SECOND: Duration = Duration::from_secs(1);

/// Connects over the first of these, and later over the others.
async fn connected<const N: usize>(pipes: [ScriptedPipe; N]) -> (Arc<dyn Client>, Arc<Counters>) {
    let counters = Counters::new();
    let mut context = Context::default();
    context.metrics = counters.clone();
    let dialer = ScriptedDialer::new(1, pipes.map(Ok));
    let client = connect(dialer, &endpoint(), context).await.unwrap();
    (client, counters)
}

#[tokio::test(start_paused = true)]
async fn the_place_and_the_certificate_of_the_connection_are_told() {
    let mut pipe = ScriptedPipe::greeting(&[]);
    pipe.certificate = Some([7; 32]);
    let (client, _) = connected([pipe]).await;
    assert_eq!(client.peer_certificate(), Some([7; 32]));
    assert_eq!(client.server_address().as_deref(), Some("place:1"));
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_nothing_breaks_the_protocol() {
    for (count, refused) in [(1_u64, 0), (0, 1)] {
        let mut lagged = header(FrameKind::Lagged, 16).to_vec();
        lagged.extend(1_u64.to_le_bytes());
        lagged.extend(count.to_le_bytes());
        let (_client, counters) = connected([ScriptedPipe::greeting(&lagged)]).await;
        Clock.pause(SECOND).await;
        assert_eq!(counters.get(Metric::PeersRefused), refused);
        assert_eq!(counters.get(Metric::Disconnected), refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_aborted_when_the_server_does_not_take_the_farewell() {
    let broken = || io::Error::from(ErrorKind::BrokenPipe);
    for (farewell, is_aborted, time) in [
        (Some(Ok(())), false, Duration::ZERO),
        (Some(Err(broken())), true, Duration::ZERO),
        (None, true, FAREWELL),
    ] {
        let mut pipe = ScriptedPipe::greeting(&[]);
        pipe.takes.farewell = farewell;
        let aborted = Arc::clone(&pipe.takes.is_aborted);
        let (client, _) = connected([pipe]).await;
        let begin = Clock.now();
        client.shutdown(SECOND).await.unwrap();
        assert_eq!(aborted.load(Ordering::Relaxed), is_aborted);
        assert_eq!(Clock.now() - begin, time);
    }
}
