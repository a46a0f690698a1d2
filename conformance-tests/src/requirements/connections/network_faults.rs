//! Peers that are gone without a word, and networks that are slow or lossy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_protocol::transport::{Delivery, ErrorKind, Limits};

use super::network::stage;
use super::restarts::asking;
use crate::failure::{ensure, ensure_eq, is_error, not_later};
use crate::kit::{
    Host, PING, Proxy, TEST_TIMEOUT, World, echo, exact, join_all, number, numbered, topic,
};
use crate::{Expecting, Failure, Outcome};

pub(super) async fn half_open_client(world: Arc<World>) -> Outcome {
    let (host, proxy, caller) = stage(&world, world.with_short_pings()).await?;
    let _listener = caller.subscribe(&[exact("t")?]).await?;
    let t = topic("t")?;
    ensure_eq!(host.publisher.subscriptions(&t), 1, "subscriptions");
    proxy.vanish();
    let promised = world.clock().after(PING * 2 * 3);
    while host.publisher.subscriptions(&t) > 0 {
        ensure!(
            world.clock().now() < promised,
            "a client is gone since three times two pings, and its subscription is still counted"
        );
        world.clock().pause(Duration::from_millis(5)).await;
    }
    Ok(())
}

pub(super) async fn one_way_silence(world: Arc<World>) -> Outcome {
    let (mut host, proxy, caller) = stage(&world, world.with_short_pings()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    for round in 0..3 {
        let lost = asking(&world, &caller, 1);
        let held = host.requests.next().await?;
        proxy.mute_server();
        let promised = world.clock().after(PING * 2 * 3);
        // Answered, and nobody hears it.
        held.reply.send("unheard".into())?;
        let lost = lost.await.expecting("a task of the suite")?;
        is_error(
            &lost,
            ErrorKind::ConnectionLost,
            "the request whose reply does not come back",
        )?;
        listener.link(&Delivery::Disconnected).await?;
        not_later(
            world.clock(),
            promised,
            "the news of a silent server, three times two pings",
        )?;
        proxy.heal();
        listener.link(&Delivery::Connected).await?;
        host.publish(&topic("t")?, numbered(round, 8)).await?;
        let (_, payload) = listener.message().await?;
        ensure_eq!(number(&payload), round, "the publication");
    }
    Ok(())
}

pub(super) async fn slow_network(world: Arc<World>) -> Outcome {
    let limits = patient(world.with_short_pings());
    let host = world.serve_with(limits.clone()).await?;
    let proxy = Proxy::start(&world, &host.bound).await?;
    proxy.delay(PING / 8, PING / 8);
    all_arrives(&world, (host, limits), &proxy, 60).await
}

pub(super) async fn lossy_datagrams(world: Arc<World>) -> Outcome {
    let limits = patient(world.limits());
    let host = world.serve_with(limits.clone()).await?;
    let proxy = Proxy::start(&world, &host.bound).await?;
    proxy.spoil_datagrams(5, 10, 10);
    all_arrives(&world, (host, limits), &proxy, 200).await
}

/// Connecting takes its time on a bad network.
fn patient(mut limits: Limits) -> Limits {
    limits.connect_timeout = TEST_TIMEOUT;
    limits.handshake_timeout = TEST_TIMEOUT;
    limits
}

/// `count` requests and publications through the proxy, at once: each runs once, each arrives once
/// and in order.
async fn all_arrives(
    world: &Arc<World>,
    (host, limits): (Host, Limits),
    proxy: &Proxy,
    count: u64,
) -> Outcome {
    let executions: Arc<Mutex<HashMap<u64, u32>>> = Arc::default();
    let counting = Arc::clone(&executions);
    let host = host.answering(world, move |request| {
        let mut counts = counting.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(number(&request.payload)).or_default() += 1;
        drop(counts);
        echo(request);
    });
    let caller = world.try_client(&proxy.at, limits).await;
    let caller = caller.expecting("connecting through the proxy")?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let publishing = async {
        for n in 0..count {
            let size = if n % 10 == 0 { 20_000 } else { 100 };
            host.publish(&topic("t")?, numbered(n, size)).await?;
        }
        Ok(())
    };
    let reading = async {
        for n in 0..count {
            match listener.next().await? {
                Some(Delivery::Message { payload, .. }) => {
                    ensure_eq!(number(&payload), n, "the next publication");
                }
                other => {
                    return Err(Failure::new(format!(
                        "instead of publication {n} came {other:?}"
                    )));
                }
            }
        }
        Ok(())
    };
    let asked = join_all((0..count).map(|n| caller.ask(numbered(n, 1000))));
    let (published, read, replies) = tokio::join!(publishing, reading, asked);
    published.and(read)?;
    for (n, reply) in (0..).zip(replies) {
        let reply = reply.expecting(format!("request {n} over a bad network"))?;
        ensure_eq!(number(&reply), n, "the reply");
    }
    let executions = executions.lock().unwrap_or_else(PoisonError::into_inner);
    for n in 0..count {
        ensure_eq!(executions.get(&n), Some(&1), "executions of request {n}");
    }
    Ok(())
}
