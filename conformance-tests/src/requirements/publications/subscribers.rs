//! Subscribers of one client, how they are counted, and how soon they hear.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::Outcome;
use crate::failure::ensure_eq;
use crate::kit::{World, exact, number, numbered, prefix, topic};

pub(super) async fn subscribers_of_one_client(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut first = caller.subscribe(&[exact("both")?, exact("first")?]).await?;
    let mut second = caller
        .subscribe(&[exact("both")?, exact("second")?])
        .await?;
    for name in ["first", "second", "both"] {
        host.publish(&topic(name)?, name).await?;
    }
    for (listener, names) in [
        (&mut first, ["first", "both"]),
        (&mut second, ["second", "both"]),
    ] {
        for name in names {
            ensure_eq!(
                listener.message().await?.1,
                Bytes::from(name),
                "the next publication"
            );
        }
    }
    drop(second);
    for _ in 0..20 {
        host.publish(&topic("both")?, "still").await?;
        ensure_eq!(
            first.message().await?.1,
            Bytes::from("still"),
            "a publication after another subscriber of the same topic has gone"
        );
    }
    // Twins, of which one goes: the other stays, and is still counted.
    let both = topic("both")?;
    for _ in 0..3 {
        let twin = caller.subscribe(&[exact("both")?, exact("first")?]).await?;
        drop(twin);
        let gone = || host.publisher.subscriptions(&both) == 1;
        world.eventually("a twin is counted no more", gone).await?;
        host.publish(&both, "still").await?;
        ensure_eq!(
            first.message().await?.1,
            Bytes::from("still"),
            "a publication after another subscriber with equal filters has gone"
        );
    }
    Ok(())
}

pub(super) async fn subscriptions_are_counted(world: Arc<World>) -> Outcome {
    let mut limits = world.limits();
    // No ping brings a withdrawal.
    limits.ping_interval = Duration::from_secs(60);
    let host = world.serve_with(limits.clone()).await?;
    let publisher = &host.publisher;
    let (a, ab) = (topic("a")?, topic("a/b")?);
    ensure_eq!(
        publisher.subscriptions(&a),
        0,
        "subscriptions before there are any"
    );
    let first = world.client_with(&host, limits.clone()).await?;
    let second = world.client_with(&host, limits).await?;
    let mut beneath = first.subscribe(&[prefix("a")?]).await?;
    ensure_eq!(
        publisher.subscriptions(&a),
        1,
        "subscriptions of a after one for a and beneath"
    );
    ensure_eq!(
        publisher.subscriptions(&ab),
        1,
        "subscriptions of a/b after one for a and beneath"
    );
    let only = second.subscribe(&[exact("a/b")?]).await?;
    ensure_eq!(
        publisher.subscriptions(&a),
        1,
        "subscriptions of a after one more for a/b"
    );
    ensure_eq!(
        publisher.subscriptions(&ab),
        2,
        "subscriptions of a/b after one more for it"
    );
    let beside = second.subscribe(&[exact("a/b")?]).await?;
    let twin = second.subscribe(&[exact("a/b")?]).await?;
    ensure_eq!(
        publisher.subscriptions(&ab),
        4,
        "subscriptions of a/b after two more by subscribers of one client"
    );
    drop((twin, beside));
    drop(only);
    world
        .eventually("a dropped subscriber is counted no more", || {
            publisher.subscriptions(&ab) == 1
        })
        .await?;
    host.publish(&ab, "still").await?;
    beneath.message().await?;
    first.shut_down().await?;
    world
        .eventually(
            "the subscriber of a client that was shut down is counted no more",
            || publisher.subscriptions(&ab) == 0,
        )
        .await
}

pub(super) async fn no_ping(world: Arc<World>) -> Outcome {
    const BURST: u64 = 20;
    let mut limits = world.limits();
    limits.ping_interval = Duration::from_secs(60);
    let host = world.serve_with(limits.clone()).await?;
    let caller = world.client_with(&host, limits).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let t = topic("t")?;
    for round in 0..300 {
        let count = if round % 10 == 9 { BURST } else { 1 };
        for n in 0..count {
            host.publish(&t, numbered(n, 100)).await?;
        }
        for n in 0..count {
            let (_, payload) = listener.message().await?;
            ensure_eq!(number(&payload), n, "the publication of round {round}");
        }
    }
    Ok(())
}
