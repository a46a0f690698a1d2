//! The end of a client.

use std::sync::Arc;

use bytes::Bytes;
use saline_protocol::transport::{Delivery, ErrorKind};

use crate::failure::{ensure, ensure_eq, is_error, not_later};
use crate::kit::{TEST_TIMEOUT, World, exact, join_all, numbered, topic};
use crate::{Expecting, Outcome};

pub(super) async fn pending_requests_are_closed(world: Arc<World>) -> Outcome {
    let mut limits = world.limits();
    limits.requests_in_flight = 10;
    let mut host = world.serve().await?;
    let caller = world.client_with(&host, limits).await?;
    let asking = join_all((0..20).map(|n| caller.ask(numbered(n, 16))));
    let ending = async {
        let mut held = Vec::new();
        for _ in 0..10 {
            held.push(host.requests.next().await?);
        }
        caller.shut_down().await?;
        let told = world.clock().now();
        Outcome::Ok((told, held))
    };
    let (outcomes, ended) = tokio::join!(asking, ending);
    let (told, held) = ended?;
    not_later(
        world.clock(),
        told + TEST_TIMEOUT / 5,
        "the end of pending requests",
    )?;
    for (n, outcome) in outcomes.iter().enumerate() {
        is_error(
            outcome,
            ErrorKind::Closed,
            format!("request {n} of a client that was shut down"),
        )?;
    }
    for request in held {
        // Nobody is there to get it, which is no error.
        request.reply.send("late".into())?;
    }

    let caller = world.client(&host).await?;
    let asking = caller.ask("in flight");
    let ending = async {
        let held = host.requests.next().await?;
        host.kill().await?;
        drop(held);
        Outcome::Ok(())
    };
    let (outcome, ended) = tokio::join!(asking, ending);
    ended?;
    is_error(
        &outcome,
        ErrorKind::ConnectionLost,
        "the request in flight when the server went",
    )?;
    let asking = join_all((0..5).map(|n| caller.ask(numbered(n, 16))));
    let (outcomes, ended) = tokio::join!(asking, caller.shut_down());
    ended?;
    for outcome in outcomes {
        is_error(
            &outcome,
            ErrorKind::Closed,
            "a request that waited for the link",
        )?;
    }
    Ok(())
}

pub(super) async fn client_without_a_link(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    host.kill().await?;
    listener.link(&Delivery::Disconnected).await?;
    let started = world.clock().now();
    caller.shut_down().await?;
    not_later(
        world.clock(),
        started + TEST_TIMEOUT / 5,
        "the shutdown of a client without a link",
    )?;
    ensure_eq!(listener.next().await?, None, "what the subscriber yielded");
    ensure!(
        caller.context.tracker.is_empty(),
        "the client has tasks left"
    );
    Ok(())
}

pub(super) async fn use_after_shutdown(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.echoing(&world);
    let caller = world.client(&host).await?;
    caller.shut_down().await?;
    let started = world.clock().now();
    for _ in 0..3 {
        let outcome = caller.ask("anybody").await;
        is_error(&outcome, ErrorKind::Closed, "a request after the shutdown")?;
        let outcome = caller.try_subscribe(&[exact("t")?], TEST_TIMEOUT).await;
        is_error(
            &outcome,
            ErrorKind::Closed,
            "a subscription after the shutdown",
        )?;
    }
    host.shut_down(TEST_TIMEOUT)
        .await?
        .expecting("shutting down")?;
    for _ in 0..3 {
        let outcome = host.publisher.publish(&topic("t")?, Bytes::new()).await;
        is_error(
            &outcome,
            ErrorKind::Closed,
            "a publication after the shutdown",
        )?;
    }
    not_later(world.clock(), started + TEST_TIMEOUT / 3, "Closed")
}

pub(super) async fn streams_end(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut waiting = caller.subscribe(&[exact("t")?]).await?;
    let mut later = caller.subscribe(&[exact("t")?]).await?;
    host.publish(&topic("t")?, "before").await?;
    waiting.message().await?;
    let (yielded, down) = tokio::join!(waiting.next(), caller.shut_down());
    down?;
    ensure_eq!(
        yielded?,
        None,
        "what a waiting subscriber yielded at the end"
    );
    for _ in 0..3 {
        ensure_eq!(
            waiting.next().await?,
            None,
            "what an ended subscriber yielded"
        );
    }
    let mut left = 0;
    while later.next().await?.is_some() {
        left += 1;
        ensure!(
            left <= 1,
            "a subscriber yields on after its client was shut down"
        );
    }
    ensure_eq!(
        later.next().await?,
        None,
        "what an ended subscriber yielded"
    );

    let control = Arc::clone(&host.control);
    let waiting = host.requests.stream()?;
    let (yielded, down) = tokio::join!(waiting.next(), control.shutdown(TEST_TIMEOUT));
    down.expecting("shutting down")?;
    ensure!(
        yielded.is_none(),
        "a request came from a server without clients"
    );
    for _ in 0..3 {
        ensure!(
            host.requests.within(TEST_TIMEOUT).await?.is_none(),
            "an ended stream of requests went on"
        );
    }
    Ok(())
}
