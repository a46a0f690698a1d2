//! The proxy over connections: TCP, and Unix sockets of either kind. A packet stays whole.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use saline_protocol::transport::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};

use super::network_faults::NetworkFaults;
use super::{World, socket};
use crate::Outcome;
use crate::kit::raw::{PACKET, Place, Raw, RawListener};

/// Bytes that are carried at once.
const AT_ONCE: usize = 16 * 1024;

/// Listens in front of `server`; returns where. `number` tells this front from the other.
pub(super) async fn front(
    world: &Arc<World>,
    server: Place,
    faults: &Arc<NetworkFaults>,
    number: usize,
) -> Outcome<Place> {
    let (listener, at) = socket(RawListener::bind(&server, world).await)?;
    let (tasks, faults) = (Arc::clone(world), Arc::clone(faults));
    world.spawn(async move {
        let mut vanished = Vec::new();
        while let Ok(client) = listener.accept().await {
            faults.visits.fetch_add(1, Ordering::Relaxed);
            if faults.closed.load(Ordering::Relaxed) {
                continue;
            }
            if faults.gone.load(Ordering::Relaxed) {
                vanished.push(client);
                continue;
            }
            let faults = Arc::clone(&faults);
            tasks.spawn(carry(client, server.clone(), faults, number));
        }
    });
    Ok(at)
}

/// Carries one connection until either side or a fault ends it.
async fn carry(client: Raw, server: Place, faults: Arc<NetworkFaults>, front: usize) {
    let (frozen, reset) = (faults.frozen.watch(), faults.reset.watch());
    let mute = faults.mute.watch();
    faults.said().clear();
    let Ok(server) = Raw::connect(&server).await else {
        return;
    };
    for stream in [&client, &server] {
        // Best effort: slices that are joined again are no slices, and an end that is not a reset
        // is an end all the same.
        let _ = stream.at_once();
        let _ = stream.keep_little();
        let _ = stream.reset_at_the_end();
    }
    let whole = client.keeps_boundaries();
    let (from_client, to_client) = split(client);
    let (from_server, to_server) = split(server);
    let upwards = Direction {
        faults: &faults,
        whole,
        up: Some(front),
    };
    let downwards = Direction {
        up: None,
        ..upwards
    };
    // They hold the sockets, so they must outlive the choice between them.
    let mut up = pin!(upwards.copy(from_client, to_server));
    let mut from_there = pin!(downwards.copy(from_server, to_client));
    let mut down = pin!(async {
        tokio::select! {
            biased;
            () = mute.cancelled() => std::future::pending().await,
            () = &mut from_there => {}
        }
    });
    tokio::select! {
        biased;
        () = reset.cancelled() => {}
        // Nothing is carried from here on, and the sockets stay open.
        () = frozen.cancelled() => std::future::pending().await,
        () = &mut up => {}
        () = &mut down => {}
    }
}

/// One direction of a connection.
#[derive(Debug, Clone, Copy)]
struct Direction<'a> {
    faults: &'a NetworkFaults,
    /// Whether its packets stay whole.
    whole: bool,
    /// The front of what comes from a client.
    up: Option<usize>,
}

impl Direction<'_> {
    /// Copies it to its end.
    async fn copy(self, mut from: ReadHalf<Raw>, mut to: WriteHalf<Raw>) {
        let faults = self.faults;
        let slices = faults.slices.load(Ordering::Relaxed);
        let room = match (self.whole, slices) {
            (true, _) => PACKET,
            (false, true) => 1,
            (false, false) => AT_ONCE,
        };
        let mut buffer = vec![0; room];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if let Some(wait) = faults.wait(count) {
                Clock.pause(wait).await;
            }
            if let Some(front) = self.up {
                faults.hear(front, &buffer[..count]);
                let left = faults.budget.load(Ordering::Relaxed);
                if left < count {
                    // Part of a message, and then nothing. Those that come later are not cut.
                    if !self.whole {
                        let _ = to.write_all(&buffer[..left]).await;
                    }
                    faults.budget.store(usize::MAX, Ordering::Relaxed);
                    return;
                }
                if left != usize::MAX {
                    faults.budget.store(left - count, Ordering::Relaxed);
                }
            }
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }
}
