//! Subscriptions of a client that is not admitted.

use std::sync::Arc;

use saline_protocol::transport::{Delivery, ErrorKind, Metric};

use super::admission::{LONG, tight};
use crate::Outcome;
use crate::failure::{ensure, ensure_eq, is_error};
use crate::kit::{PING, World, admit, exact, number, numbered, topic};

/// Topics before admission.
const FEW: usize = 3;

/// How many times the connection is lost.
const ROUNDS: u64 = 3;

pub(super) async fn wait_for_admission(world: Arc<World>) -> Outcome {
    let mut limits = tight(&world, |limits| limits.subscriptions = FEW);
    // No ping tells the client of its admission.
    limits.ping_interval = LONG;
    let mut host = world.serve_with(limits.clone()).await?;
    let caller = world.client_with(&host, limits).await?;
    let mut first = caller.subscribe(&[exact("first")?]).await?;
    let many: Vec<_> = (0..FEW).map(|n| exact(&format!("many/{n}"))).collect();
    let many = many.into_iter().collect::<Outcome<Vec<_>>>()?;
    let early = caller.try_subscribe(&many, PING).await;
    let what = "subscribing to more topics than are allowed before admission";
    is_error(&early, ErrorKind::Unreachable, what)?;
    let t = topic("many/0")?;
    let (second, peer) = tokio::join!(caller.subscribe(&many), async {
        world.clock().pause(PING).await;
        ensure_eq!(
            host.publisher.subscriptions(&t),
            0,
            "subscriptions of a peer that is not admitted, above those that it may have"
        );
        admit(&mut host, &caller).await
    });
    let (mut second, mut peer) = (second?, peer?);
    for round in 0..=ROUNDS {
        for (listener, name) in [(&mut first, "first"), (&mut second, "many/0")] {
            host.publish(&topic(name)?, numbered(round, 8)).await?;
            let (_, payload) = listener.message().await?;
            ensure_eq!(number(&payload), round, "the publication on {name}");
        }
        if round == ROUNDS || !host.control.disconnect(peer) {
            break;
        }
        first.link(&Delivery::Disconnected).await?;
        second.link(&Delivery::Disconnected).await?;
        first.link(&Delivery::Connected).await?;
        let early = second.within(PING * 2, "").await;
        ensure!(
            early.is_err(),
            "a subscriber with more topics than are allowed before admission was told {early:?} on a connection that is not admitted"
        );
        peer = admit(&mut host, &caller).await?;
        second.link(&Delivery::Connected).await?;
    }
    ensure_eq!(
        host.counters.get(Metric::PeersRefused),
        0,
        "peers that were counted as refused"
    );
    Ok(())
}
