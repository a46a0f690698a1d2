//! Ceilings of memory. Each runs in a process of its own, both ends in it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::Outcome;
use crate::failure::not_later;
use crate::kit::{Host, PING, Proxy, TEST_TIMEOUT, World, exact, number, numbered, topic, within};
use crate::{Expecting, Failure};

/// Bytes of each message.
const SIZE: usize = 64 * 1024;

/// A quarter of a gibibyte of them.
const COUNT: u64 = 4096;

/// Bytes of each large message.
const LARGE: usize = 256 * 1024;

/// How many of those there are.
const LARGE_COUNT: u64 = 1500;

/// What both ends together may take of it, in mebibytes: two queues of 16, and what sockets and
/// allocators add.
const CEILING: usize = 128;

/// Publishes them all, a few at a time, so that whoever would send them has its turn.
async fn publish_all(world: &World, host: &Host) -> Outcome {
    let t = topic("t")?;
    for n in 0..COUNT {
        host.publish(&t, numbered(n, SIZE)).await?;
        if n % 64 == 0 {
            world.clock().pause(Duration::from_millis(1)).await;
        }
    }
    Ok(())
}

pub(super) async fn of_a_slow_subscriber(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let publishing = publish_all(&world, &host);
    within(CEILING, "a subscriber that does not read", publishing).await?;
    let (_, first) = listener.message().await?;
    if number(&first) != 0 {
        return Err(Failure::new("the first publication did not arrive first"));
    }
    Ok(())
}

pub(super) async fn of_unread_requests(world: Arc<World>) -> Outcome {
    const CLIENTS: usize = 4;
    const EACH: usize = 1000;
    let mut limits = world.unhurried();
    limits.requests_unanswered = 16;
    let mut host = world.serve_with(limits).await?;
    let mut callers = Vec::new();
    for _ in 0..CLIENTS {
        callers.push(world.client_with(&host, world.unhurried()).await?);
    }
    // What the callers hold is theirs, and the same bytes for all of them.
    let payload = Bytes::from(vec![0x5a; 2 * SIZE]);
    let flood = async {
        let mut asking = Vec::new();
        for caller in &callers {
            for _ in 0..EACH {
                let (caller, payload) = (caller.clone(), payload.clone());
                asking.push(world.spawn(async move {
                    // They all begin now, and the last has to wait for all before it.
                    caller.ask_within(payload, TEST_TIMEOUT * 4).await.map(drop)
                }));
            }
        }
        // Whatever is read without a permit is read by then.
        world.clock().pause(PING * 4).await;
        Outcome::Ok(asking)
    };
    let asking = within(CEILING, "requests that nobody takes", flood).await?;
    // They are there all the same, one after the other.
    for _ in 0..CLIENTS * EACH {
        let request = host.requests.next().await?;
        request.reply.send(Bytes::new())?;
    }
    for task in asking {
        let outcome = task.await.expecting("a task of the suite")?;
        outcome.expecting("a request that waited for the server to read")?;
    }
    Ok(())
}

pub(super) async fn of_a_dead_link(world: Arc<World>) -> Outcome {
    let mut limits = world.limits();
    // So that all of it is published before anybody notices.
    limits.ping_interval = PING * 20;
    let host = world.serve_with(limits).await?;
    let proxy = Proxy::start(&world, &host.bound).await?;
    let caller = world.try_client(&proxy.at, world.limits()).await;
    let caller = caller.expecting("connecting through the proxy")?;
    let listener = caller.subscribe(&[exact("t")?]).await?;
    proxy.vanish();
    let promised = world.clock().after(TEST_TIMEOUT);
    // Those that fill a queue by their number are many times what it may hold in bytes.
    let publishing = async {
        let t = topic("t")?;
        for n in 0..LARGE_COUNT {
            host.publish(&t, numbered(n, LARGE)).await?;
            tokio::task::yield_now().await;
        }
        publish_all(&world, &host).await
    };
    within(CEILING, "a network that takes nothing", publishing).await?;
    not_later(world.clock(), promised, "publishing to a dead link")?;
    drop(listener);
    Ok(())
}
