//! Clients that go on although something is refused, slow, or not there.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::{Delivery, Metric};

use super::network::stage;
use crate::failure::{ensure, ensure_eq};
use crate::kit::{PING, TEST_TIMEOUT, World, exact, number, numbered, payload, topic};
use crate::{Expecting, Outcome, Wire};

pub(super) async fn long_message(world: Arc<World>) -> Outcome {
    /// Bytes in a second; a message takes three times as long as a peer may be silent, and is larger than what sockets of
    /// the system take of it at once, so that whoever writes it waits as well.
    const PACE: usize = 5_000_000;
    let size = PACE * 6 * PING.as_millis() as usize / 1000;
    let limits = world.with_short_pings();
    let (host, proxy, asking) = stage(&world, limits.clone()).await?;
    let host = host.echoing(&world);
    // Each message is alone on its link and direction, so that nothing else says that the peer is there.
    let listening = world.try_client(&proxy.at, limits).await;
    let listening = listening.expecting("connecting through the proxy")?;
    let mut listener = listening.subscribe(&[exact("t")?]).await?;
    proxy.throttle(PACE);
    let sent = payload(1, size);
    let publication = async {
        host.publish(&topic("t")?, sent.clone()).await?;
        listener.message().await
    };
    let request = asking.ask_within(sent.clone(), TEST_TIMEOUT * 2);
    let (reply, publication) = tokio::join!(request, publication);
    let reply = reply.expecting("a request and a reply that take longer than two pings")?;
    ensure!(reply == sent, "the reply is not what was sent");
    let (_, arrived) = publication?;
    ensure!(arrived == sent, "the publication is not what was sent");
    for caller in [&asking, &listening] {
        ensure_eq!(caller.counters.get(Metric::Disconnected), 0, "links lost");
    }
    Ok(())
}

pub(super) async fn refused_subscription(world: Arc<World>) -> Outcome {
    const MAX_FILTERS: usize = 3;
    let mut fewer = world.limits();
    fewer.subscriptions_per_connection = MAX_FILTERS;
    let many: Vec<_> = (0..=MAX_FILTERS)
        .map(|n| exact(&format!("many/{n}")))
        .collect();
    let many = many.into_iter().collect::<Outcome<Vec<_>>>()?;
    for greedy_first in [false, true] {
        let host = world.serve().await?;
        let caller = world.client(&host).await?;
        let (mut greedy, mut modest);
        if greedy_first {
            greedy = caller.subscribe(&many).await?;
            modest = caller.subscribe(&[exact("t")?]).await?;
        } else {
            modest = caller.subscribe(&[exact("t")?]).await?;
            greedy = caller.subscribe(&many).await?;
        }
        let at = host.bound.clone();
        host.kill().await?;
        let host = world.try_serve(at, fewer.clone()).await;
        let host = host
            .expecting("serving again with a lower limit")?
            .echoing(&world);
        greedy.link(&Delivery::Disconnected).await?;
        ensure_eq!(
            greedy.next().await?,
            None,
            "what a subscriber with more topics than the server allows yielded after Disconnected"
        );
        modest.link(&Delivery::Disconnected).await?;
        modest.link(&Delivery::Connected).await?;
        host.publish(&topic("t")?, numbered(1, 8)).await?;
        let (_, payload) = modest.message().await?;
        ensure_eq!(number(&payload), 1, "the publication to another subscriber");
        let disturbed = modest.within(PING * 3, "").await;
        ensure!(
            disturbed.is_err(),
            "the client does not stay connected: another subscriber was told {disturbed:?}"
        );
        let links = caller.counters.get(Metric::Connected);
        caller.ask("still here").await.expecting("a request")?;
        // There is room for as many as the server allows.
        let more = caller.subscribe(&many[..MAX_FILTERS - 1]).await?;
        ensure_eq!(
            caller.counters.get(Metric::Connected),
            links,
            "links after a subscription that is not refused"
        );
        drop(more);
    }
    Ok(())
}

pub(super) async fn backs_off(world: Arc<World>) -> Outcome {
    const WATCHED_TIME: Duration = Duration::from_secs(3);
    const DATAGRAMS_EACH: usize = 8;
    let (host, proxy, caller) = stage(&world, world.with_short_pings()).await?;
    let host = host.echoing(&world);
    caller.ask("up").await.expecting("a request")?;
    proxy.hang_up(true);
    proxy.reset();
    // Over UDP nothing tells one attempt from the next, so that datagrams are counted: some of them are one attempt.
    let (visits, each): (&(dyn Fn() -> usize + Sync), usize) = match world.wire() {
        Some(Wire::Udp) => (&|| proxy.datagrams(), DATAGRAMS_EACH),
        _ => (&|| proxy.visits(), 1),
    };
    let (started, before) = (world.clock().now(), visits());
    world.clock().pause(WATCHED_TIME).await;
    let (took, tries) = (world.clock().now() - started, visits() - before);
    // What World::context_with says: waits grow to 200 ms, a tenth of which is the least.
    let least = Duration::from_millis(20);
    let fronts = if proxy.at.publications.is_some() {
        2
    } else {
        1
    };
    let most = each * fronts * (8 + (took.as_micros() / least.as_micros()) as usize);
    ensure!(
        tries <= most,
        "{tries} attempts in {took:?} at a place that hangs up, or datagrams at one that is silent, {most} are the most that the backoff allows"
    );
    ensure!(tries >= 2, "{tries} attempts in {took:?}");
    proxy.hang_up(false);
    let reply = caller.ask_within("back", TEST_TIMEOUT).await;
    reply.expecting("a request after the place has come back")?;
    drop(host);
    Ok(())
}
