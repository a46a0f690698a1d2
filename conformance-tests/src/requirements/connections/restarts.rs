//! Servers that go and come back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Delivery, ErrorKind, ServeAt};
use tokio::task::JoinHandle;

use crate::failure::{ensure, ensure_eq, is_error, not_later};
use crate::kit::{
    Caller, DEADLINE_SLACK, Host, PING, World, echo, exact, join_all, number, numbered, prefix,
    topic,
};
use crate::{Expecting, Outcome};

/// How many times each numbered request was executed.
#[derive(Debug, Clone, Default)]
struct Executions(Arc<Mutex<HashMap<u64, u32>>>);

impl Executions {
    fn count(&self, payload: &Bytes) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(number(payload)).or_default() += 1;
    }

    fn of(&self, number: u64) -> u32 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&number).copied().unwrap_or(0)
    }
}

/// Starts a server where `at` was, which counts what it executes and echoes it.
async fn counting(world: &World, at: &ServeAt, executions: &Executions) -> Outcome<Host> {
    let executions = executions.clone();
    Ok(world
        .serve_again(at)
        .await?
        .answering(world, move |request| {
            executions.count(&request.payload);
            echo(request);
        }))
}

/// Kills `host` with a request of `caller` in flight: when this returns, the client knows that its
/// link is down.
pub(super) async fn cut(world: &World, mut host: Host, caller: &Caller) -> Outcome<ServeAt> {
    let asking = asking(world, caller, u64::MAX);
    let held = host.requests.next().await?;
    host.kill().await?;
    let outcome = asking.await.expecting("a task of the suite")?;
    is_error(
        &outcome,
        ErrorKind::ConnectionLost,
        "the request in flight when the server went",
    )?;
    drop(held);
    Ok(host.bound)
}

pub(super) fn asking(
    world: &World,
    caller: &Caller,
    number: u64,
) -> JoinHandle<saline_protocol::transport::Result<Bytes>> {
    let caller = caller.clone();
    world.spawn(async move { caller.ask(numbered(number, 16)).await })
}

pub(super) async fn restart_with_requests_in_flight(world: Arc<World>) -> Outcome {
    const IN_FLIGHT: u64 = 32;
    let executions = Executions::default();
    let mut host = world.serve_with(world.with_short_pings()).await?;
    let caller = world.client_with(&host, world.with_short_pings()).await?;
    let asking: Vec<_> = (0..IN_FLIGHT).map(|n| asking(&world, &caller, n)).collect();
    let mut held = Vec::new();
    for _ in 0..IN_FLIGHT {
        let request = host.requests.next().await?;
        executions.count(&request.payload);
        held.push(request);
    }
    host.kill().await?;
    let noticed = world.clock().after(PING * 2 * 3);
    for (n, outcome) in (0..IN_FLIGHT).zip(asking) {
        let outcome = outcome.await.expecting("a task of the suite")?;
        is_error(
            &outcome,
            ErrorKind::ConnectionLost,
            format!("request {n} in flight when the server went"),
        )?;
    }
    not_later(world.clock(), noticed, "the news that the server went")?;
    drop(held);
    let host = counting(&world, &host.bound, &executions).await?;
    for n in IN_FLIGHT..2 * IN_FLIGHT {
        let reply = caller.ask(numbered(n, 16)).await;
        let reply = reply.expecting("a request of the same client to the server that came back")?;
        ensure_eq!(number(&reply), n, "the reply");
    }
    for n in 0..2 * IN_FLIGHT {
        ensure_eq!(executions.of(n), 1, "executions of request {n}");
    }
    drop(host);
    Ok(())
}

pub(super) async fn first_requests_after_a_reconnect(world: Arc<World>) -> Outcome {
    for round in 0..5 {
        let host = world.serve().await?;
        let caller = world.client(&host).await?;
        let at = cut(&world, host, &caller).await?;
        let executions = Executions::default();
        let _host = counting(&world, &at, &executions).await?;
        let all = (0..50).map(|n| caller.ask(numbered(n, 16)));
        for (n, reply) in (0..50).zip(join_all(all).await) {
            let what = format!("request {n} after reconnect {round}");
            ensure_eq!(number(&reply.expecting(&what)?), n, "{what}");
            ensure_eq!(executions.of(n), 1, "executions of {what}");
        }
    }
    Ok(())
}

pub(super) async fn requests_wait_for_the_link(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 20;
    const ROUNDS: u32 = 24;
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    for round in 0..ROUNDS {
        let at = cut(&world, host, &caller).await?;
        let asking = join_all((0..COUNT).map(|n| caller.ask(numbered(n, 16))));
        let executions = Executions::default();
        let restarting = async {
            // Once long enough for several attempts to reconnect to have failed.
            let down = if round == 0 { PING * 2 } else { PING / 20 };
            world.clock().pause(down).await;
            let mut host = world.serve_again(&at).await?;
            let answered = async {
                for _ in 0..COUNT {
                    let request = host.requests.next().await?;
                    executions.count(&request.payload);
                    echo(request);
                }
                Outcome::Ok(())
            };
            let answered = answered.await;
            Outcome::Ok((host, answered))
        };
        let (replies, restarted) = tokio::join!(asking, restarting);
        // Where the server did not come back, that is why its client got no replies.
        let (served, answered) = restarted?;
        for (n, reply) in (0..COUNT).zip(replies) {
            let what = format!("request {n}, made while the link was down in round {round}");
            ensure_eq!(number(&reply.expecting(&what)?), n, "the reply");
            ensure_eq!(executions.of(n), 1, "executions of {what}");
        }
        answered?;
        host = served;
    }
    Ok(())
}

pub(super) async fn unreachable_did_not_run(world: Arc<World>) -> Outcome {
    const LIMIT: Duration = Duration::from_millis(300);
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let at = cut(&world, host, &caller).await?;
    let promised = world.clock().after(LIMIT);
    let all = (0..20).map(|n| caller.client.request(numbered(n, 16), promised));
    for outcome in join_all(all).await {
        is_error(
            &outcome,
            ErrorKind::Unreachable,
            "a request while the link was down",
        )?;
    }
    ensure!(
        world.clock().now() >= promised,
        "it ended before its deadline"
    );
    not_later(
        world.clock(),
        promised + DEADLINE_SLACK,
        "the deadline while the link was down",
    )?;
    let executions = Executions::default();
    let host = counting(&world, &at, &executions).await?;
    // One after the other, so that whatever was still queued has its turn.
    for n in 100..120 {
        let reply = caller.ask(numbered(n, 16)).await;
        reply.expecting("a request after the restart")?;
    }
    for n in 0..20 {
        ensure_eq!(
            executions.of(n),
            0,
            "executions of request {n}, which was Unreachable"
        );
    }
    drop(host);
    Ok(())
}

pub(super) async fn stale_replies(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut stale = Vec::new();
    for round in 0..5 {
        let old: Vec<_> = (0..5).map(|n| asking(&world, &caller, n)).collect();
        for _ in 0..5 {
            stale.push(host.requests.next().await?);
        }
        host.kill().await?;
        for outcome in old {
            let outcome = outcome.await.expecting("a task of the suite")?;
            is_error(
                &outcome,
                ErrorKind::ConnectionLost,
                "a request when the server went",
            )?;
        }
        host = world.serve_again(&host.bound).await?;
        let new: Vec<_> = (100..105).map(|n| asking(&world, &caller, n)).collect();
        let mut fresh = Vec::new();
        for _ in 0..5 {
            fresh.push(host.requests.next().await?);
        }
        for request in stale.drain(..) {
            request.reply.send("stale".into())?;
        }
        for request in fresh {
            request.reply.send(request.payload.clone())?;
        }
        for (n, reply) in (100..).zip(new) {
            let reply = reply.await.expecting("a task of the suite")?;
            let reply = reply.expecting(format!("a request after restart {round}"))?;
            ensure_eq!(number(&reply), n, "the reply");
        }
    }
    Ok(())
}

pub(super) async fn subscribe_while_down(world: Arc<World>) -> Outcome {
    const LIMIT: Duration = Duration::from_millis(300);
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let at = cut(&world, host, &caller).await?;
    let promised = world.clock().after(LIMIT);
    let outcome = caller.try_subscribe(&[exact("t")?], LIMIT).await;
    is_error(
        &outcome,
        ErrorKind::Unreachable,
        "subscribing while the link is down",
    )?;
    ensure!(
        world.clock().now() >= promised,
        "it ended before its deadline"
    );
    not_later(
        world.clock(),
        promised + DEADLINE_SLACK,
        "the deadline of a subscription",
    )?;
    let filters = [exact("t")?];
    let subscribing = caller.subscribe(&filters);
    let (listener, host) = tokio::join!(subscribing, world.serve_again(&at));
    // Where the server did not come back, that is why nothing was confirmed.
    let host = host?;
    let mut listener = listener?;
    host.publish(&topic("t")?, "news").await?;
    ensure_eq!(
        listener.message().await?.1,
        Bytes::from("news"),
        "the first publication"
    );
    ensure_eq!(
        host.publisher.subscriptions(&topic("t")?),
        1,
        "subscriptions, one of which was given up"
    );
    Ok(())
}

pub(super) async fn link_events_alternate(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    for round in 0..5 {
        host.kill().await?;
        listener.link(&Delivery::Disconnected).await?;
        // Several attempts to reconnect fail meanwhile.
        world.clock().pause(PING).await;
        host = world.serve_again(&host.bound).await?;
        listener.link(&Delivery::Connected).await?;
        host.publish(&topic("t")?, numbered(round, 8)).await?;
        ensure_eq!(
            number(&listener.message().await?.1),
            round,
            "the publication"
        );
    }
    Ok(())
}

pub(super) async fn connected_means_subscribed(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(caller.subscribe(&[exact("t")?, prefix("u")?]).await?);
    }
    // The last number of each listener and topic.
    let mut last = HashMap::new();
    for round in 0..10 {
        host.kill().await?;
        host = world.serve_again(&host.bound).await?;
        for (listener, n) in listeners.iter_mut().zip(10 * round..) {
            listener.link(&Delivery::Disconnected).await?;
            listener.link(&Delivery::Connected).await?;
            host.publish(&topic("t")?, numbered(n, 8)).await?;
            host.publish(&topic("u/v")?, numbered(n, 8)).await?;
            // What the other listeners caused comes before it, each once.
            for name in ["t", "u/v"] {
                let next = topic(name)?;
                loop {
                    let (topic, payload) = listener.message().await?;
                    let number = number(&payload);
                    ensure!(
                        last.insert((n % 10, topic.clone()), number) < Some(number),
                        "publication {number} on {topic} came twice, or after a later one"
                    );
                    if (topic == next) && number == n {
                        break;
                    }
                }
            }
        }
        // And what they caused after it.
        host.publish(&topic("u")?, "end").await?;
        for listener in &mut listeners {
            while listener.message().await?.1 != "end" {}
        }
        // From then on it is as before: each once, in order.
        for n in 0..30 {
            host.publish(&topic("t")?, numbered(n, 8)).await?;
        }
        for listener in &mut listeners {
            for n in 0..30 {
                let (_, payload) = listener.message().await?;
                ensure_eq!(number(&payload), n, "publication {n} after a reconnect");
            }
        }
    }
    Ok(())
}
