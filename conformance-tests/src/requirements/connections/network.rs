//! A network that is bad on purpose.

use std::sync::Arc;

use saline_protocol::transport::{Delivery, ErrorKind, Limits};

use super::restarts::asking;
use crate::failure::{ensure, ensure_eq, is_error, not_later};
use crate::kit::{Caller, Host, PING, Proxy, World, exact, number, numbered, payload, topic};
use crate::{Expecting, Outcome};

/// A server, the proxy in front of it, and a client behind that, both with these limits.
pub(super) async fn stage(world: &Arc<World>, limits: Limits) -> Outcome<(Host, Proxy, Caller)> {
    let host = world.serve_with(limits.clone()).await?;
    let proxy = Proxy::start(world, &host.bound).await?;
    let caller = world.try_client(&proxy.at, limits).await;
    let caller = caller.expecting("connecting through the proxy")?;
    Ok((host, proxy, caller))
}

pub(super) async fn black_hole(world: Arc<World>) -> Outcome {
    let (mut host, proxy, caller) = stage(&world, world.with_short_pings()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    for round in 0..3 {
        let lost = asking(&world, &caller, 1);
        let held = host.requests.next().await?;
        proxy.black_hole();
        let promised = world.clock().after(PING * 2 * 3);
        let lost = lost.await.expecting("a task of the suite")?;
        is_error(
            &lost,
            ErrorKind::ConnectionLost,
            "the request in the black hole",
        )?;
        listener.link(&Delivery::Disconnected).await?;
        not_later(
            world.clock(),
            promised,
            "the news of a black hole, three times two pings",
        )?;
        drop(held);
        proxy.heal();
        listener.link(&Delivery::Connected).await?;
        host.publish(&topic("t")?, numbered(round, 8)).await?;
        ensure_eq!(
            number(&listener.message().await?.1),
            round,
            "the publication"
        );
        let again = asking(&world, &caller, 2);
        let request = host.requests.next().await?;
        ensure_eq!(
            number(&request.payload),
            2,
            "the request after the black hole"
        );
        request.reply.send("here".into())?;
        again
            .await
            .expecting("a task of the suite")?
            .expecting("a request after the black hole")?;
    }
    Ok(())
}

pub(super) async fn resets(world: Arc<World>) -> Outcome {
    let (mut host, proxy, caller) = stage(&world, world.limits()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    for round in 0..5 {
        let lost = asking(&world, &caller, 1);
        let held = host.requests.next().await?;
        proxy.reset();
        let lost = lost.await.expecting("a task of the suite")?;
        is_error(
            &lost,
            ErrorKind::ConnectionLost,
            "the request of a connection that was reset",
        )?;
        // Nobody is there to get it, which is no error.
        held.reply.send("late".into())?;
        listener.link(&Delivery::Disconnected).await?;
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

pub(super) async fn partial_messages(world: Arc<World>) -> Outcome {
    const SIZE: usize = 300_000;
    let (host, proxy, caller) = stage(&world, world.limits()).await?;
    let host = host.echoing(&world);
    for (seed, bytes) in (0..).zip([1, 7, 20, 1000, 65_536, 200_000]) {
        caller
            .ask(numbered(seed, 16))
            .await
            .expecting("a request before the cut")?;
        proxy.cut_after(bytes);
        let cut = caller.ask(payload(seed, SIZE)).await;
        // What is cut before the request may be a ping; then the request waits for the new link.
        if let Ok(reply) = &cut {
            ensure!(
                *reply == payload(seed, SIZE),
                "the reply is not what was sent"
            );
        } else {
            is_error(
                &cut,
                ErrorKind::ConnectionLost,
                "a request that was cut in the middle",
            )?;
        }
        for n in 0..5 {
            let asked = payload(100 + n, SIZE);
            let reply = caller.ask(asked.clone()).await;
            let reply = reply.expecting("a request after one that was cut in the middle")?;
            ensure!(reply == asked, "the reply is not what was sent");
        }
    }
    drop(host);
    Ok(())
}

pub(super) async fn one_byte_at_a_time(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.echoing(&world);
    let proxy = Proxy::start(&world, &host.bound).await?;
    proxy.slice(true);
    let caller = world.try_client(&proxy.at, world.limits()).await;
    let caller = caller.expecting("connecting one byte at a time")?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    for size in [0, 1, 300, 2000] {
        let asked = payload(1, size);
        let reply = caller.ask(asked.clone()).await;
        let reply = reply.expecting("a request, one byte at a time")?;
        ensure!(reply == asked, "the reply is not what was sent");
        host.publish(&topic("t")?, asked.clone()).await?;
        ensure!(
            listener.message().await?.1 == asked,
            "the publication is not what was sent"
        );
    }
    Ok(())
}
