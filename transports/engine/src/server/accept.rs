//! The task that accepts connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::Metric;

use super::greet::greet;
use super::ungreeted::Ungreeted;
use super::{CloseOnDrop, ServerCore};
use crate::GRACE;
use crate::pipe::{Incoming, Listener};

/// Accepts connections until the server stops, and then closes the listener.
pub(super) async fn accept<L: Listener>(mut listener: L, open: Arc<CloseOnDrop>) {
    let core = &open.0;
    tokio::select! {
        biased;
        () = core.lifetime.stop.cancelled() => {}
        never = take_all(&mut listener, &open) => match never {},
    }
    let clock = core.lifetime.context.clock;
    // A little later than the tasks of connections, which tell at the deadline what they had to cut.
    let ended = async {
        let emptied = clock.deadline(core.lifetime.deadline() + GRACE / 2, core.empty());
        if emptied.await.is_err() {
            core.close();
        }
    };
    listener.close(ended).await;
}

async fn take_all<L: Listener>(
    listener: &mut L,
    open: &Arc<CloseOnDrop>,
) -> std::convert::Infallible {
    let core: &ServerCore = &open.0;
    let context = &core.lifetime.context;
    let mut backoff = context.backoff.clone();
    loop {
        match listener.accept().await {
            Ok(incoming) => {
                backoff.reset();
                let Some(ungreeted) = Ungreeted::new(open, incoming.source()) else {
                    context.count(Metric::PeersRefused);
                    incoming.refuse();
                    continue;
                };
                core.lifetime.spawn(greet(incoming, ungreeted));
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(%error, "refused");
                context.count(Metric::PeersRefused);
            }
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "a connection went before it was accepted");
            }
            Err(error) => {
                // Out of descriptors or memory: trying again at once would only take a processor. A descriptor that is
                // cut is free as soon as its task has run.
                let is_cut = is_out_of_descriptors(&error) && core.cut_for_descriptor();
                let delay = match is_cut {
                    true => CUT_DELAY,
                    false => backoff.next_delay(),
                };
                tracing::warn!(%error, ?delay, is_cut, "cannot accept connections");
                context.clock.pause(delay).await;
            }
        }
    }
}

/// The delay before accepting again once a connection was cut for its descriptor.
const CUT_DELAY: Duration = Duration::from_millis(10);

/// Whether the process or the machine has no descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput, NotConnected,
    };
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput | NotConnected
    )
}
