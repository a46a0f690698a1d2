//! Numbers of things.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::ErrorKind;

use crate::failure::{ensure, ensure_eq, is_error};
use crate::kit::{PING, TEST_TIMEOUT, World, exact, join_all, number, numbered, topic};
use crate::{Expecting, Failure, Outcome};

pub(super) async fn requests_unanswered(world: Arc<World>) -> Outcome {
    const MAX: usize = 8;
    const COUNT: u64 = 60;
    let mut limits = world.limits();
    limits.requests_unanswered = MAX;
    let mut host = world.serve_with(limits).await?;
    let callers = [world.client(&host).await?, world.client(&host).await?];
    let asking = join_all((0..COUNT).map(|n| {
        let caller = &callers[usize::from(n % 2 == 1)];
        caller.ask(numbered(n, 1000))
    }));
    let answering = async {
        let mut held = std::collections::VecDeque::new();
        for _ in 0..MAX {
            held.push_back(host.requests.next().await?);
        }
        ensure!(
            host.requests.within(PING * 2).await.is_err(),
            "{} requests are out unanswered, {MAX} are allowed",
            MAX + 1
        );
        // One more for each answer, however it is given.
        for n in MAX as u64..COUNT {
            let Some(request) = held.pop_front() else {
                break;
            };
            if n % 10 == 3 {
                drop(request);
            } else {
                request.reply.send(request.payload.clone())?;
            }
            held.push_back(host.requests.next().await?);
        }
        for request in held {
            request.reply.send(request.payload.clone())?;
        }
        Outcome::Ok(())
    };
    let (replies, answered) = tokio::join!(asking, answering);
    answered?;
    for (n, reply) in (0..).zip(replies) {
        match reply {
            Ok(reply) => ensure_eq!(number(&reply), n, "the reply"),
            Err(error) if error.kind() == ErrorKind::NoReply => {}
            Err(error) => return Err(Failure::new(format!("request {n} of a flood: {error}"))),
        }
    }
    Ok(())
}

pub(super) async fn requests_in_flight(world: Arc<World>) -> Outcome {
    const MAX: usize = 4;
    let mut limits = world.limits();
    limits.requests_in_flight = MAX;
    let mut host = world.serve().await?;
    let caller = world.client_with(&host, limits).await?;
    let asking = join_all((0..12).map(|n| caller.ask(numbered(n, 16))));
    let answering = async {
        let mut held = Vec::new();
        for _ in 0..MAX {
            held.push(host.requests.next().await?);
        }
        ensure!(
            host.requests.within(PING * 2).await.is_err(),
            "{} requests are under way, {MAX} are allowed",
            MAX + 1
        );
        let waiting = caller
            .ask_within("no room", Duration::from_millis(300))
            .await;
        is_error(
            &waiting,
            ErrorKind::Unreachable,
            "a request for which there is no room",
        )?;
        for _ in MAX..12 {
            let Some(request) = held.pop() else { break };
            request.reply.send(request.payload.clone())?;
            held.push(host.requests.next().await?);
        }
        for request in held {
            request.reply.send(request.payload.clone())?;
        }
        Outcome::Ok(())
    };
    let (replies, answered) = tokio::join!(asking, answering);
    answered?;
    for (n, reply) in (0..).zip(replies) {
        let reply = reply.expecting("a request that waited for room")?;
        ensure_eq!(number(&reply), n, "the reply");
    }
    Ok(())
}

pub(super) async fn number_of_topics(world: Arc<World>) -> Outcome {
    const MAX: usize = 50;
    let mut limits = world.limits();
    limits.subscriptions_per_connection = MAX;
    let host = world.serve_with(limits.clone()).await?;
    let caller = world.client_with(&host, limits).await?;
    let outcome = caller.try_subscribe(&[], TEST_TIMEOUT).await;
    is_error(&outcome, ErrorKind::Config, "subscribing to nothing")?;
    let filters = (0..=MAX).map(|n| exact(&format!("t/{n}")));
    let filters = filters.collect::<Outcome<Vec<_>>>()?;
    let outcome = caller.try_subscribe(&filters, TEST_TIMEOUT).await;
    is_error(
        &outcome,
        ErrorKind::Config,
        "subscribing to one topic too many",
    )?;
    let mut listener = caller.subscribe(&filters[..MAX]).await?;
    for n in 0..MAX as u64 {
        host.publish(&topic(&format!("t/{n}"))?, numbered(n, 8))
            .await?;
        ensure_eq!(number(&listener.message().await?.1), n, "the publication");
    }
    let outcome = caller.try_subscribe(&filters[MAX..], TEST_TIMEOUT).await;
    is_error(
        &outcome,
        ErrorKind::Config,
        "one topic more than the client may hold, by a subscriber of its own",
    )?;
    drop(listener);
    let half = caller.subscribe(&filters[..MAX / 2]).await?;
    let other = caller.subscribe(&filters[MAX / 2..MAX]).await?;
    let outcome = caller.try_subscribe(&filters[MAX..], TEST_TIMEOUT).await;
    is_error(
        &outcome,
        ErrorKind::Config,
        "one topic more than the client may hold, by a third subscriber",
    )?;
    drop((half, other));
    as_many_of_the_longest(&world).await
}

/// As many topics as are allowed by default, each as long as a topic may be, in one call.
async fn as_many_of_the_longest(world: &World) -> Outcome {
    const LONGEST: usize = 512;
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let most = world.limits().subscriptions_per_connection as u64;
    let name = |n: u64| format!("t/{n:0>width$}", width = LONGEST - 2);
    let filters = (0..most).map(|n| exact(&name(n)));
    let filters = filters.collect::<Outcome<Vec<_>>>()?;
    let mut listener = caller.subscribe(&filters).await?;
    for n in [0, most / 2, most - 1] {
        host.publish(&topic(&name(n))?, numbered(n, 8)).await?;
        ensure_eq!(
            number(&listener.message().await?.1),
            n,
            "the publication of the topic {n} of {most}, each of {LONGEST} bytes"
        );
    }
    Ok(())
}

pub(super) async fn connections(world: Arc<World>) -> Outcome {
    const MAX: usize = 5;
    let mut limits = world.limits();
    limits.connections = MAX;
    let host = world.serve_with(limits).await?.echoing(&world);
    let mut callers = Vec::new();
    for _ in 0..MAX {
        callers.push(world.client(&host).await?);
    }
    let outcome = world.try_client(&host.bound, world.limits()).await;
    is_error(
        &outcome,
        ErrorKind::Unreachable,
        "connecting to a server that is full",
    )?;
    for caller in &callers {
        caller
            .ask("beside")
            .await
            .expecting("a request of a client that is connected")?;
    }
    if let Some(leaving) = callers.pop() {
        leaving.shut_down().await?;
    }
    let deadline = world.clock().after(TEST_TIMEOUT);
    loop {
        match world.try_client(&host.bound, world.limits()).await {
            Ok(caller) => {
                caller
                    .ask("room")
                    .await
                    .expecting("a request of a client that found room")?;
                return Ok(());
            }
            Err(error) if world.clock().now() >= deadline => {
                return Err(Failure::new(format!(
                    "one has gone and there is no room: {error}"
                )));
            }
            Err(_) => world.clock().pause(Duration::from_millis(20)).await,
        }
    }
}
