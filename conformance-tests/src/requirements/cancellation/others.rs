//! Everything else that is dropped.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::Delivery;

use super::requests::{POLLS, SITTING};
use crate::failure::{ensure, ensure_eq};
use crate::kit::{TEST_TIMEOUT, World, exact, number, numbered, poll_at_most, topic};
use crate::{Expecting, Failure, Outcome};

pub(super) async fn dropped_delivery(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 500;
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let t = topic("t")?;
    for n in 0..COUNT {
        // Dropped while there is nothing, and while something is on its way.
        for times in 1..3 {
            let early = poll_at_most(times, Duration::from_millis(1), listener.0.next()).await;
            ensure!(
                early.is_none(),
                "the subscriber yielded {early:?} before it was published"
            );
        }
        host.publish(&t, numbered(n, 100)).await?;
        let mut tries = 0;
        let got = loop {
            if let Some(got) = poll_at_most(1, SITTING, listener.0.next()).await {
                break got;
            }
            tries += 1;
            ensure!(tries < 20_000, "publication {n} did not arrive");
            tokio::task::yield_now().await;
            if tries > 1000 {
                world.clock().pause(Duration::from_millis(1)).await;
            }
        };
        match got {
            Some(Delivery::Message { payload, .. }) => {
                ensure_eq!(number(&payload), n, "the next publication");
            }
            other => return Err(Failure::new(format!("the subscriber yielded {other:?}"))),
        }
    }
    Ok(())
}

pub(super) async fn dropped_subscribe(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let t = topic("t/dropped")?;
    for times in 1..=POLLS {
        for _ in 0..5 {
            let filters = [exact("t/dropped")?];
            drop(
                poll_at_most(times, SITTING, caller.subscribe(&filters))
                    .await
                    .transpose()?,
            );
        }
        let mut listener = caller.subscribe(&[exact("t/kept")?]).await?;
        host.publish(&topic("t/kept")?, "news").await?;
        ensure_eq!(
            listener.message().await?.1,
            Bytes::from("news"),
            "the publication"
        );
    }
    world
        .eventually("subscriptions whose futures were dropped are gone", || {
            host.publisher.subscriptions(&t) == 0
        })
        .await
}

pub(super) async fn dropped_serve(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let at = host.bound.clone();
    host.kill().await?;
    for times in 1..=POLLS {
        let (context, _) = world.context();
        let serving = world.transport.serve(at.clone(), context.clone());
        // One that came before may not be gone yet.
        if let Some(Ok(server)) = poll_at_most(times, SITTING, serving).await {
            server
                .control
                .shutdown(TEST_TIMEOUT)
                .await
                .expecting("shutting down")?;
        }
        world
            .eventually("no task of a dropped serve is left", || {
                context.tracker.is_empty()
            })
            .await?;
    }
    let host = world.serve_soon(&at).await?.echoing(&world);
    let caller = world.client(&host).await?;
    caller
        .ask("free")
        .await
        .expecting("a request after serves were dropped")?;
    Ok(())
}

pub(super) async fn dropped_connect(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.echoing(&world);
    for times in 1..=POLLS {
        let (context, _) = world.context();
        let connecting = world
            .transport
            .connect(&host.bound.requests, context.clone());
        if let Some(client) = poll_at_most(times, SITTING, connecting).await {
            let client = client.expecting("connecting")?;
            client
                .shutdown(TEST_TIMEOUT)
                .await
                .expecting("shutting down")?;
        }
        world
            .eventually("no task of a dropped connect is left", || {
                context.tracker.is_empty()
            })
            .await?;
    }
    let caller = world.client(&host).await?;
    caller
        .ask("connected")
        .await
        .expecting("a request after connects were dropped")?;
    Ok(())
}

pub(super) async fn dropped_publish(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let t = topic("t")?;
    let mut last = 0;
    for times in 1..=POLLS {
        for n in 0..10 {
            last += 1;
            let size = if n % 3 == 0 { 200_000 } else { 20 };
            let publishing = host.publisher.publish(&t, numbered(last, size));
            // Taken or not; which of the two is seen below.
            let _ = poll_at_most(times, SITTING, publishing).await;
        }
        last += 1;
        host.publish(&t, numbered(last, 20)).await?;
        let mut before = 0;
        while before != last {
            let (_, payload) = listener.message().await?;
            let got = number(&payload);
            ensure!(got > before, "publication {got} came after {before}");
            ensure!(
                [20, 200_000].contains(&payload.len()),
                "publication {got} has {} bytes",
                payload.len()
            );
            before = got;
        }
    }
    Ok(())
}

pub(super) async fn dropped_shutdown(world: Arc<World>) -> Outcome {
    for times in 1..6 {
        let host = world.serve().await?.echoing(&world);
        let caller = world.client(&host).await?;
        caller.ask("up").await.expecting("a request")?;
        let _ = poll_at_most(
            times,
            Duration::from_millis(1),
            caller.client.shutdown(TEST_TIMEOUT),
        )
        .await;
        caller.shut_down().await?;
        ensure!(
            caller.context.tracker.is_empty(),
            "the client has tasks left"
        );
        let _ = poll_at_most(
            times,
            Duration::from_millis(1),
            host.control.shutdown(TEST_TIMEOUT),
        )
        .await;
        host.shut_down(TEST_TIMEOUT)
            .await?
            .expecting("the second shutdown")?;
        ensure!(host.context.tracker.is_empty(), "the server has tasks left");
        world.serve_again(&host.bound).await?.kill().await?;
    }
    Ok(())
}
