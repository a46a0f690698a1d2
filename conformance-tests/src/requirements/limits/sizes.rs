//! Sizes of messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Delivery, ErrorKind, Limits};

use crate::failure::{ensure, ensure_eq, is_error};
use crate::kit::{TEST_TIMEOUT, World, echo, exact, payload, topic};
use crate::{Expecting, Failure, Outcome};

/// The limit of the ladders.
const LIMIT: usize = 300_000;

/// Their rungs.
const SIZES: [usize; 12] = [
    0,
    1,
    2,
    254,
    255,
    256,
    8_191,
    65_535,
    65_536,
    LIMIT / 2,
    LIMIT - 1,
    LIMIT,
];

fn limited(world: &World) -> Limits {
    let mut limits = world.limits();
    limits.max_message = LIMIT;
    limits
}

pub(super) async fn request_sizes(world: Arc<World>) -> Outcome {
    let mut host = world.serve_with(limited(&world)).await?;
    let caller = world.client_with(&host, limited(&world)).await?;
    let mut peer = None;
    for (seed, size) in (0..).zip(SIZES) {
        let (reply, arrived) = tokio::join!(caller.ask(payload(seed, size)), async {
            let request = host.requests.next().await?;
            request.reply.send("got it".into())?;
            Outcome::Ok((request.peer, request.payload))
        });
        reply.expecting(format!("a request of {size} bytes"))?;
        let (from, arrived) = arrived?;
        ensure!(
            arrived == payload(seed, size),
            "{size} bytes did not arrive as they were sent"
        );
        ensure!(
            peer.is_none_or(|peer| peer == from),
            "the connection is another one"
        );
        peer = Some(from);
        for size in [LIMIT + 1, LIMIT * 4] {
            let outcome = caller.ask(payload(seed, size)).await;
            is_error(
                &outcome,
                ErrorKind::TooLarge,
                format!("a request of {size} bytes"),
            )?;
        }
    }
    Ok(())
}

pub(super) async fn reply_sizes(world: Arc<World>) -> Outcome {
    let mut host = world.serve_with(limited(&world)).await?;
    let caller = world.client_with(&host, limited(&world)).await?;
    for (seed, size) in (0..).zip(SIZES) {
        let (reply, sent) = tokio::join!(caller.ask("one"), async {
            let request = host.requests.next().await?;
            Outcome::Ok(request.reply.send(payload(seed, size)))
        });
        sent?.expecting(format!("sending a reply of {size} bytes"))?;
        let reply = reply.expecting(format!("a reply of {size} bytes"))?;
        ensure!(
            reply == payload(seed, size),
            "{size} bytes did not arrive as they were sent"
        );
        let (reply, sent) = tokio::join!(caller.ask("another"), async {
            let request = host.requests.next().await?;
            Outcome::Ok(request.reply.send(payload(seed, LIMIT + 1)))
        });
        is_error(
            &sent?,
            ErrorKind::TooLarge,
            "sending a reply of the limit and a byte",
        )?;
        is_error(
            &reply,
            ErrorKind::NoReply,
            "a request whose reply was too large",
        )?;
    }
    Ok(())
}

pub(super) async fn publication_sizes(world: Arc<World>) -> Outcome {
    let host = world.serve_with(limited(&world)).await?;
    let caller = world.client_with(&host, limited(&world)).await?;
    let t = topic(&format!("{}/topic", "long".repeat(100)))?;
    let mut listener = caller.subscribe(&[exact(t.as_str())?]).await?;
    for (seed, size) in (0..).zip(SIZES) {
        host.publish(&t, payload(seed, size)).await?;
        let (_, arrived) = listener.message().await?;
        ensure!(
            arrived == payload(seed, size),
            "{size} bytes did not arrive as they were sent"
        );
        let outcome = host.publisher.publish(&t, payload(seed, LIMIT + 1)).await;
        is_error(
            &outcome,
            ErrorKind::TooLarge,
            "a publication of the limit and a byte",
        )?;
    }
    Ok(())
}

pub(super) async fn peer_beyond_the_limit(world: Arc<World>) -> Outcome {
    let largest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&largest);
    let host = world.serve_with(limited(&world)).await?;
    let host = host.answering(&world, move |request| {
        seen.fetch_max(request.payload.len(), Ordering::Relaxed);
        echo(request);
    });
    let (large, small) = (world.client(&host).await?, world.client(&host).await?);
    let mut listener = small.subscribe(&[exact("t")?]).await?;
    for size in [LIMIT + 1, LIMIT + 500, LIMIT * 10] {
        let outcome = large
            .ask_within(payload(1, size), Duration::from_secs(5))
            .await;
        ensure!(
            outcome.is_err(),
            "{size} bytes were answered by a server whose limit is {LIMIT}"
        );
        small
            .ask("beside")
            .await
            .expecting("a request of another client")?;
        host.publish(&topic("t")?, "beside").await?;
        listener.message().await?;
        // The link may still be on its way down, and up.
        let deadline = world.clock().after(TEST_TIMEOUT);
        let mut works = false;
        while !works && world.clock().now() < deadline {
            works = large.ask("small again").await.is_ok();
        }
        ensure!(
            works,
            "after {size} bytes the client's smaller requests fail too"
        );
    }
    let largest = largest.load(Ordering::Relaxed);
    ensure!(
        largest <= LIMIT,
        "the handler got a request of {largest} bytes, the server's limit is {LIMIT}"
    );
    Ok(())
}

pub(super) async fn reply_beyond_the_limit(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let (small, large) = (
        world.client_with(&host, limited(&world)).await?,
        world.client(&host).await?,
    );
    for size in [LIMIT + 1, LIMIT + 500, LIMIT * 10] {
        let asked = small.ask_within("how much?", Duration::from_secs(5));
        let (reply, sent) = tokio::join!(asked, async {
            let request = host.requests.next().await?;
            Outcome::Ok(request.reply.send(payload(1, size)))
        });
        sent?.expecting("a reply within the server's limit")?;
        ensure!(
            reply.is_err(),
            "a client whose limit is {LIMIT} took a reply of {size} bytes"
        );
        for caller in [&large, &small] {
            let asked = caller.ask("and now?");
            let (reply, sent) = tokio::join!(asked, async {
                let request = host.requests.next().await?;
                Outcome::Ok(request.reply.send(payload(2, LIMIT)))
            });
            sent?.expecting("a reply within both limits")?;
            let reply = reply.expecting("a request after one whose reply was too large")?;
            ensure!(reply == payload(2, LIMIT), "the reply is not what was sent");
        }
    }
    Ok(())
}

pub(super) async fn limit_beyond_the_backend(world: Arc<World>) -> Outcome {
    let mut limits = world.limits();
    limits.max_message = world.transport.capabilities().max_message + 1;
    let served = world.try_serve(world.fresh(), limits.clone()).await;
    is_error(
        &served,
        ErrorKind::Config,
        "serving with a limit beyond the backend's",
    )?;
    let host = world.serve().await?;
    let connected = world.try_client(&host.bound, limits).await;
    is_error(
        &connected,
        ErrorKind::Config,
        "connecting with a limit beyond the backend's",
    )
}

pub(super) async fn large_message_in_a_small_queue(world: Arc<World>) -> Outcome {
    let mut limits = world.limits();
    limits.subscriber_queue_bytes = 10_000;
    let host = world.serve_with(limits.clone()).await?;
    let caller = world.client_with(&host, limits).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    for n in 0..5 {
        host.publish(&topic("t")?, payload(n, LIMIT)).await?;
        let (_, arrived) = listener.message().await?;
        ensure!(
            arrived == payload(n, LIMIT),
            "it did not arrive as it was sent"
        );
    }
    Ok(())
}

pub(super) async fn default_limit(world: Arc<World>) -> Outcome {
    let size = world.limits().max_message;
    ensure_eq!(size, 64 * 1024 * 1024, "the default limit");
    // Made before there is a link, which must not starve meanwhile.
    let large = payload(7, size);
    let host = world.serve_with(world.with_short_pings()).await?;
    let host = host.echoing(&world);
    let caller = world.client_with(&host, world.with_short_pings()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let reply = caller.ask_within(large.clone(), TEST_TIMEOUT * 2).await;
    ensure!(
        reply.expecting("a request and a reply of 64 MiB")? == large,
        "the reply is not what was sent"
    );
    host.publish(&topic("t")?, large.clone()).await?;
    let arrived = listener.within(TEST_TIMEOUT * 2, "a publication of 64 MiB");
    match arrived.await? {
        Some(Delivery::Message { payload, .. }) => {
            ensure!(payload == large, "the publication is not what was sent");
        }
        other => {
            return Err(Failure::new(format!(
                "instead of a publication of 64 MiB came {other:?}"
            )));
        }
    }
    caller
        .ask(Bytes::new())
        .await
        .expecting("a request after 64 MiB")?;
    Ok(())
}
