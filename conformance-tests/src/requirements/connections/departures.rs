//! Peers that have gone, and that the server tells of.

use std::sync::Arc;

use saline_protocol::transport::Departure;

use crate::failure::{ensure, ensure_eq, not_later};
use crate::kit::{Caller, PING, Proxy, TEST_TIMEOUT, World, admit, exact, topic};
use crate::{Expecting, Outcome, Wire};

/// How a client may go.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    ShutDown,
    Cut,
    Reset,
    Vanish,
}

pub(super) async fn told_once(world: Arc<World>) -> Outcome {
    let limits = world.with_short_pings();
    let mut host = world.serve_with(limits.clone()).await?;
    let mut ways = vec![Way::ShutDown, Way::Cut, Way::ShutDown];
    match world.backend().wire() {
        Some(Wire::Udp) => ways.push(Way::Vanish),
        Some(_) => ways.extend([Way::Reset, Way::Vanish]),
        None => {}
    }
    // Who stays is not told, whatever becomes of the others.
    let staying = world.client_with(&host, limits.clone()).await?;
    admit(&mut host, &staying).await?;
    for way in ways {
        let proxy = match way {
            Way::ShutDown | Way::Cut => None,
            Way::Reset | Way::Vanish => Some(Proxy::start(&world, &host.bound).await?),
        };
        let at = proxy.as_ref().map_or(&host.bound, |proxy| &proxy.at);
        let caller = world.try_client(at, limits.clone()).await;
        let caller = caller.expecting("connecting to a server that is up")?;
        let peer = admit(&mut host, &caller).await?;
        // A second time changes nothing.
        host.control.admitted(peer);
        let promised = world.clock().after(PING * 2 * 3);
        match way {
            Way::ShutDown => caller.shut_down().await?,
            Way::Cut => ensure!(host.control.disconnect(peer), "it could not be cut"),
            Way::Reset => proxy.iter().for_each(Proxy::reset),
            Way::Vanish => proxy.iter().for_each(Proxy::vanish),
        }
        let told = host.departures.next().await?;
        ensure_eq!(told, Some(Departure::Gone(peer)), "{way:?}: the departure");
        not_later(world.clock(), promised, format!("{way:?}: the departure"))?;
        caller.shut_down().await?;
    }
    let more = host.departures.within(PING * 2).await;
    ensure!(more.is_err(), "more departures were told: {more:?}");
    drop(staying);
    Ok(())
}

pub(super) async fn streams_end(world: Arc<World>) -> Outcome {
    for cancelled in [false, true] {
        let mut host = world.serve().await?;
        let caller = world.client(&host).await?;
        admit(&mut host, &caller).await?;
        let end = async {
            // It waits by then.
            world.clock().pause(PING / 2).await;
            if cancelled {
                host.context.cancel.cancel();
                return Ok(());
            }
            host.control.shutdown(TEST_TIMEOUT).await
        };
        // Those whom the end cuts may be told before it.
        let reading = async {
            let mut told = 0;
            while host.departures.next().await?.is_some() {
                told += 1;
                ensure!(told <= 1, "more departures were told than there were peers");
            }
            let again = host.departures.next().await?;
            ensure_eq!(again, None, "what departures yielded after their end");
            Ok(())
        };
        let (read, ended) = tokio::join!(reading, end);
        read?;
        ended.expecting("shutting down")?;
    }
    Ok(())
}

pub(super) async fn strangers_are_not_told(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    for n in 0..30 {
        let caller = world.client(&host).await?;
        let (reply, peer) = tokio::join!(caller.ask("who is there"), async {
            let request = host.requests.next().await?;
            request.reply.send("nobody".into())?;
            Outcome::Ok(request.peer)
        });
        reply.expecting("a request of a stranger")?;
        match n % 3 {
            0 => caller.shut_down().await?,
            1 => caller.context.cancel.cancel(),
            _ => {
                host.control.disconnect(peer?);
            }
        }
        // A peer that has gone is not admitted any more.
        if n % 3 == 0 {
            gone(&world, &host, &caller).await?;
        }
    }
    let last = world.client(&host).await?;
    let peer = admit(&mut host, &last).await?;
    last.shut_down().await?;
    let told = host.departures.next().await?;
    ensure_eq!(told, Some(Departure::Gone(peer)), "the first departure");
    Ok(())
}

/// Waits until the server holds nothing of `caller`, which has gone.
async fn gone(world: &World, host: &crate::kit::Host, caller: &Caller) -> Outcome {
    let t = topic("gone")?;
    world
        .eventually("the client's tasks are gone", || {
            caller.context.tracker.is_empty() && host.publisher.subscriptions(&t) == 0
        })
        .await
}

pub(super) async fn unread(world: Arc<World>) -> Outcome {
    const MAX_CONNECTIONS: usize = 4;
    const ALL: u64 = 12;
    let mut limits = world.limits();
    limits.connections = MAX_CONNECTIONS;
    let mut host = world.serve_with(limits).await?;
    for _ in 0..ALL {
        let caller = world.client(&host).await?;
        let _listener = caller.subscribe(&[exact("gone")?]).await?;
        admit(&mut host, &caller).await?;
        caller.shut_down().await?;
        gone(&world, &host, &caller).await?;
    }
    let (mut told, mut missed) = (0, 0);
    while told + missed < ALL {
        match host.departures.next().await? {
            Some(Departure::Gone(_)) => told += 1,
            Some(Departure::Missed(n)) => missed += n,
            other => return Err(crate::Failure::new(format!("departures yielded {other:?}"))),
        }
    }
    ensure_eq!(told + missed, ALL, "departures told and missed");
    // The last may have been noticed while the first was read.
    ensure!(
        told <= MAX_CONNECTIONS as u64 + 1,
        "{told} departures were kept for nobody, {MAX_CONNECTIONS} are allowed"
    );
    Ok(())
}
