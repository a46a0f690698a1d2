//! What a graceful end still does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Delivery, ErrorKind};
use tokio_util::sync::CancellationToken;

use crate::failure::{ensure, ensure_eq, is_error, not_later};
use crate::kit::{
    DEADLINE_SLACK, PING, TEST_TIMEOUT, World, exact, join_all, number, numbered, topic,
};
use crate::{Expecting, Failure, Outcome};

pub(super) async fn answers_are_flushed(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 100;
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let asking = join_all((0..COUNT).map(|n| caller.ask(numbered(n, 16))));
    let control = Arc::clone(&host.control);
    let ending = async {
        let mut held = Vec::new();
        for _ in 0..COUNT {
            held.push(host.requests.next().await?);
        }
        let down = world.spawn(async move { control.shutdown(TEST_TIMEOUT).await });
        // The end of the stream says that the shutdown has begun.
        ensure!(
            host.requests.within(TEST_TIMEOUT).await?.is_none(),
            "a request was handed out although nothing more was asked"
        );
        for request in held {
            let reply = numbered(number(&request.payload), 50_000);
            request.reply.send(reply)?;
        }
        down.await
            .expecting("a task of the suite")?
            .expecting("the shutdown")
    };
    let (replies, ended) = tokio::join!(asking, ending);
    for (n, reply) in (0..).zip(replies) {
        let reply = reply.expecting(format!("request {n}, answered during the shutdown"))?;
        ensure_eq!((number(&reply), reply.len()), (n, 50_000), "its reply");
    }
    ended?;
    world.serve_again(&host.bound).await.map(drop)
}

pub(super) async fn answers_before_unread_requests(world: Arc<World>) -> Outcome {
    const ANSWERED: usize = 2;
    const ASKED: u64 = 40;
    // More than sockets hold together, so that part of it has not left when the last byte is written.
    const ANSWER: usize = 12 << 20;
    // For so much, on a busy machine.
    const PATIENCE: Duration = TEST_TIMEOUT.saturating_mul(3);
    let mut limits = world.unhurried();
    limits.requests_unanswered = ANSWERED;
    let mut host = world.serve_with(limits).await?;
    let caller = world.client_with(&host, world.unhurried()).await?;
    let ask = |n| {
        let caller = caller.clone();
        (
            n,
            world.spawn(async move { caller.ask_within(numbered(n, 50_000), PATIENCE).await }),
        )
    };
    let mut asked: BTreeMap<u64, _> = (0..ASKED).map(ask).collect();
    let mut held = Vec::new();
    for _ in 0..ANSWERED {
        held.push(host.requests.next().await?);
    }
    let control = Arc::clone(&host.control);
    let down = world.spawn(async move { control.shutdown(PATIENCE).await });
    ensure!(
        host.requests.within(TEST_TIMEOUT).await?.is_none(),
        "a request was handed out although nothing more was asked"
    );
    let mut answered = Vec::new();
    for request in held {
        let n = number(&request.payload);
        answered.push((n, asked.remove(&n).expecting("a request that was asked")?));
        request.reply.send(numbered(n, ANSWER))?;
    }
    for (n, asking) in answered {
        let reply = asking.await.expecting("a task of the suite")?;
        let reply = reply.expecting(format!("request {n}, answered while others were unread"))?;
        ensure_eq!((number(&reply), reply.len()), (n, ANSWER), "its reply");
    }
    down.await
        .expecting("a task of the suite")?
        .expecting("the shutdown")?;
    caller.shut_down().await?;
    for (n, asking) in asked {
        let reply = asking.await.expecting("a task of the suite")?;
        ensure!(reply.is_err(), "request {n} has a reply that nobody gave");
    }
    Ok(())
}

pub(super) async fn publications_are_flushed(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 500;
    for size in [20, 2000, 20_000] {
        let host = world.serve_with(world.unhurried()).await?;
        let caller = world.client_with(&host, world.unhurried()).await?;
        let mut listener = caller.subscribe(&[exact("t")?]).await?;
        let ending = async {
            let t = topic("t")?;
            for n in 0..COUNT {
                host.publish(&t, numbered(n, size)).await?;
            }
            host.shut_down(TEST_TIMEOUT)
                .await?
                .expecting("shutting down")
        };
        let reading = async {
            for n in 0..COUNT {
                let what =
                    format!("publication {n} of {COUNT} of {size} bytes before the shutdown");
                let (_, payload) = listener
                    .message()
                    .await
                    .map_err(|failure| Failure::new(format!("{what}: {failure}")))?;
                ensure_eq!(number(&payload), n, "{what}");
            }
            listener.link(&Delivery::Disconnected).await
        };
        let (ended, read) = tokio::join!(ending, reading);
        ended.and(read)?;
    }
    Ok(())
}

pub(super) async fn deadline_of_a_shutdown(world: Arc<World>) -> Outcome {
    const LIMIT: Duration = Duration::from_millis(400);
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let asking = world.spawn({
        let caller = caller.clone();
        async move { caller.ask("never answered").await }
    });
    let held = host.requests.next().await?;
    let started = world.clock().now();
    let outcome = host.shut_down(LIMIT).await?;
    ensure!(
        world.clock().now() >= started + LIMIT,
        "it did not wait for the request until its deadline"
    );
    not_later(
        world.clock(),
        started + LIMIT + DEADLINE_SLACK,
        "a shutdown's deadline",
    )?;
    is_error(
        &outcome,
        ErrorKind::TimedOut,
        "a shutdown with a request that is not answered",
    )?;
    ensure!(host.context.tracker.is_empty(), "the server has tasks left");
    let asked = asking.await.expecting("a task of the suite")?;
    is_error(
        &asked,
        ErrorKind::ConnectionLost,
        "the request that was cut",
    )?;
    // Too late for anybody, and no error.
    held.reply.send("late".into())?;
    world.serve_again(&host.bound).await.map(drop)
}

pub(super) async fn idle_shutdown_is_quick(world: Arc<World>) -> Outcome {
    for clients in [0, 3] {
        let host = world.serve().await?.echoing(&world);
        let mut callers = Vec::new();
        for _ in 0..clients {
            let caller = world.client(&host).await?;
            let listener = caller.subscribe(&[exact("t")?]).await?;
            callers.push((caller, listener));
        }
        let started = world.clock().now();
        host.shut_down(TEST_TIMEOUT * 2)
            .await?
            .expecting("shutting down")?;
        not_later(
            world.clock(),
            started + TEST_TIMEOUT / 5,
            format!("the shutdown of a server with {clients} idle clients"),
        )?;
    }
    Ok(())
}

pub(super) async fn queued_requests_do_not_run(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 100;
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut seen = vec![0u32; usize::try_from(COUNT).unwrap_or_default()];
    let all_told = CancellationToken::new();
    let asking = async {
        let outcomes = join_all((0..COUNT).map(|n| caller.ask(numbered(n, 1000)))).await;
        all_told.cancel();
        outcomes
    };
    let restarting = async {
        // Ten are out, the others somewhere between.
        let mut held = Vec::new();
        for _ in 0..10 {
            let request = host.requests.next().await?;
            seen[position(&request.payload)] += 1;
            held.push(request);
        }
        host.kill().await?;
        drop(held);
        let mut host = world.serve_again(&host.bound).await?;
        // Whatever comes until nobody waits any more, and soon afterwards.
        loop {
            let next = tokio::select! {
                biased;
                next = host.requests.within(TEST_TIMEOUT * 2) => next?,
                () = all_told.cancelled() => match host.requests.within(PING * 2).await {
                    Ok(next) => next,
                    Err(_) => return Outcome::Ok(()),
                },
            };
            let request = next.expecting("a request of the server that came back")?;
            seen[position(&request.payload)] += 1;
            request.reply.send(request.payload.clone())?;
        }
    };
    let (outcomes, restarted) = tokio::join!(asking, restarting);
    restarted?;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        ensure!(seen[n] <= 1, "request {n} was executed {} times", seen[n]);
        match outcome {
            Ok(reply) => ensure_eq!(position(&reply), n, "the reply"),
            Err(error) if error.kind() == ErrorKind::Unreachable => {
                ensure!(seen[n] == 0, "request {n} was executed and told {error}");
            }
            Err(error) => ensure!(
                matches!(error.kind(), ErrorKind::ConnectionLost | ErrorKind::NoReply),
                "request {n} of a burst into a restart: {error}"
            ),
        }
    }
    Ok(())
}

fn position(payload: &Bytes) -> usize {
    usize::try_from(number(payload)).unwrap_or(usize::MAX)
}
