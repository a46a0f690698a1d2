//! Clients and servers that come and go, and what they leave. Each runs in a process of its own.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::{Backoff, Delivery, ErrorKind};

use crate::failure::{ensure, ensure_eq, is_error};
use crate::kit::{Growth, Host, TEST_TIMEOUT, Usage, World, exact, number, numbered, topic};
use crate::{Expecting, Outcome};

/// Descriptors and threads that may be more than before: those of pools that grow once.
const SPARE: usize = 8;

/// Mebibytes that memory may grow by, over hundreds of rounds: what allocators keep.
const MEMORY: usize = 24;

/// Bytes that each of them may leave, when almost all rounds of them leave as much.
const LEFT: usize = 700;

/// One client's life. Every other one goes without a goodbye.
async fn life(world: &World, host: &Host, n: u64) -> Outcome {
    let caller = world.client_with(host, world.with_short_pings()).await?;
    let reply = caller.ask(numbered(n, 1000)).await.expecting("a request")?;
    ensure_eq!(number(&reply), n, "the reply");
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    host.publish(&topic("t")?, numbered(n, 1000)).await?;
    ensure_eq!(number(&listener.message().await?.1), n, "the publication");
    if n.is_multiple_of(2) {
        caller.shut_down().await
    } else {
        caller.context.cancel.cancel();
        Ok(())
    }
}

pub(super) async fn of_clients(world: Arc<World>) -> Outcome {
    const WARM: u64 = 40;
    const ROUNDS: u64 = 7;
    const EACH: u64 = 100;
    // Short pings: every backend then soon notices a client that goes without a goodbye.
    let host = world.serve_with(world.with_short_pings()).await?;
    let host = host.echoing(&world);
    let settled = Usage::now()?;
    for n in 0..WARM {
        life(&world, &host, n).await?;
    }
    let t = topic("t")?;
    let nobody = || host.publisher.subscriptions(&t) == 0;
    world.eventually("subscriptions are gone", nobody).await?;
    let warm = settled.back_to(SPARE * 2, "the first clients").await?;
    let mut growth = Growth::default();
    for round in 1..=ROUNDS {
        for n in 0..EACH {
            life(&world, &host, n).await?;
        }
        world.eventually("subscriptions are gone", nobody).await?;
        let what = format!("{} clients that came and went", round * EACH);
        warm.back_to(SPARE, &what).await?;
        warm.grown_by_at_most(MEMORY, &what)?;
        growth.note()?;
    }
    growth.at_most(LEFT, EACH, "clients that came and went")
}

pub(super) async fn of_connections(world: Arc<World>) -> Outcome {
    const ROUNDS: u64 = 20;
    const EACH: u64 = 100;
    const BYTES: usize = 100;
    let mut host = world.serve_with(world.unhurried()).await?;
    // A client that need not wait before it tries again.
    let (mut context, counters) = world.context_with(world.unhurried());
    context.backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(2));
    let caller = world.try_client_in(&host.bound, (context, counters)).await;
    let caller = caller.expecting("connecting to a server that is up")?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let is_apart = host.bound.publications.is_some();
    let (mut growth, mut warm) = (Growth::default(), Usage::now()?);
    for round in 0..ROUNDS {
        for _ in 0..EACH {
            let (outcome, could) = tokio::join!(caller.ask("cut"), async {
                let request = host.requests.next().await?;
                Outcome::Ok(host.control.disconnect(request.peer))
            });
            ensure!(could?, "a peer could not be cut");
            let what = "a request whose connection was cut";
            is_error(&outcome, ErrorKind::ConnectionLost, what)?;
            if !is_apart {
                listener.link(&Delivery::Disconnected).await?;
                listener.link(&Delivery::Connected).await?;
            }
        }
        match round {
            0 => warm = warm.back_to(SPARE * 2, "the first connections").await?,
            _ => drop(warm.back_to(SPARE, "connections that were lost").await?),
        }
        growth.note()?;
    }
    growth.at_most(BYTES, EACH, "connections that were lost and replaced")
}

pub(super) async fn of_servers(world: Arc<World>) -> Outcome {
    const WARM: u64 = 10;
    const ROUNDS: u64 = 40;
    let mut warm = Usage::now()?;
    for round in 0..WARM + ROUNDS {
        let host = world.serve_with(world.with_short_pings()).await?;
        let host = host.echoing(&world);
        let staying = world.client_with(&host, world.with_short_pings()).await?;
        life(&world, &host, round).await?;
        if round % 3 == 0 {
            staying.shut_down().await?;
        }
        host.shut_down(TEST_TIMEOUT)
            .await?
            .expecting("shutting down")?;
        staying.shut_down().await?;
        if round == WARM {
            warm = warm.back_to(SPARE * 2, "the first servers").await?;
        }
    }
    let what = format!("{ROUNDS} servers that came and went");
    warm.back_to(SPARE, &what).await?;
    warm.grown_by_at_most(MEMORY, &what)
}
