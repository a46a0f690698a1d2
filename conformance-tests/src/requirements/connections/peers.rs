//! Connections that are cut, by either side.

use std::sync::Arc;

use bytes::Bytes;
use saline_protocol::transport::{ErrorKind, Peer};

use super::restarts::asking;
use crate::failure::{ensure, ensure_eq, is_error};
use crate::kit::{Caller, Host, World, echo, exact, join_all, number, numbered, topic};
use crate::{Expecting, Failure, Outcome};

pub(super) async fn disconnect_cuts_one_peer(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let (cut, spared) = (world.client(&host).await?, world.client(&host).await?);
    let lost = asking(&world, &cut, 1);
    let victim = host.requests.next().await?;
    let kept = asking(&world, &spared, 2);
    let bystander = host.requests.next().await?;
    let could = host.control.disconnect(victim.peer);
    let (peer, reply) = (victim.peer, victim.reply);
    if could {
        let lost = lost.await.expecting("a task of the suite")?;
        is_error(
            &lost,
            ErrorKind::ConnectionLost,
            "the request of the peer that was cut",
        )?;
        ensure!(
            !host.control.disconnect(peer),
            "a peer that has gone was cut again"
        );
        drop(reply);
    } else {
        reply.send("not cut".into())?;
        let lost = lost.await.expecting("a task of the suite")?;
        lost.expecting("the request of a peer that the backend says it cannot cut")?;
    }
    bystander.reply.send("spared".into())?;
    let kept = kept.await.expecting("a task of the suite")?;
    kept.expecting("the request of a peer that was not cut")?;
    let again = asking(&world, &cut, 3);
    let request = host.requests.next().await?;
    ensure!(
        !could || request.peer != peer,
        "it came back under the number of the peer that was cut"
    );
    request.reply.send("welcome back".into())?;
    let again = again.await.expecting("a task of the suite")?;
    again.expecting("a request of the client whose connection was cut")?;
    Ok(())
}

pub(super) async fn clients_that_vanish(world: Arc<World>) -> Outcome {
    /// What the server hands out at once, which is more than each wave of clients asks.
    const PERMITS: usize = 8;
    const WAVE: u64 = 5;
    let mut limits = world.limits();
    limits.requests_unanswered = PERMITS;
    let mut host = world.serve_with(limits).await?;
    let steady = world.client(&host).await?;
    let mut listener = steady.subscribe(&[exact("t")?]).await?;
    for wave in 0..6 {
        let mut held = Vec::new();
        for n in 0..WAVE {
            let caller = world.client(&host).await?;
            let listener = caller.subscribe(&[exact("t")?]).await?;
            let asking = asking(&world, &caller, n);
            held.push(host.requests.next().await?);
            // No goodbye: its tasks are dropped where they stand.
            caller.context.cancel.cancel();
            drop((caller, listener));
            asking.abort();
        }
        if wave % 2 == 0 {
            // Half of the answers come when the server knows, where it can.
            let t = topic("t")?;
            world
                .eventually(
                    "the subscriptions of clients that vanished are gone",
                    || host.publisher.subscriptions(&t) == 1,
                )
                .await?;
        }
        for request in held {
            request.reply.send("nobody there".into())?;
        }
    }
    host.publish(&topic("t")?, "still here").await?;
    ensure_eq!(
        listener.message().await?.1,
        Bytes::from("still here"),
        "the publication"
    );
    all_permits_are_free(&mut host, &steady, PERMITS).await?;
    let t = topic("t")?;
    world
        .eventually(
            "the subscriptions of clients that vanished are gone",
            || host.publisher.subscriptions(&t) == 1,
        )
        .await
}

/// Has `steady` ask as much as `host` hands out at once, `permits` requests: all of them are handed out, and not just one.
pub(super) async fn all_permits_are_free(
    host: &mut Host,
    steady: &Caller,
    permits: usize,
) -> Outcome {
    let asked = join_all((0..permits as u64).map(|n| steady.ask(numbered(n, 16))));
    let (replies, answered) = tokio::join!(asked, async {
        let mut held = Vec::new();
        for n in 0..permits {
            let request = host.requests.next().await;
            held.push(request.map_err(|_| {
                Failure::new(format!(
                    "{n} requests are handed out after others have vanished, {permits} are allowed"
                ))
            })?);
        }
        held.into_iter().for_each(echo);
        Outcome::Ok(())
    });
    answered?;
    for (n, reply) in (0..).zip(replies) {
        let reply = reply.expecting("a request after others have vanished")?;
        ensure_eq!(number(&reply), n, "the reply");
    }
    Ok(())
}

/// Has a request made, and returns the peer that the server names for it.
async fn peer_of(host: &mut Host, caller: &Caller) -> Outcome<Peer> {
    let (reply, peer) = tokio::join!(caller.ask("who am I?"), async {
        let request = host.requests.next().await?;
        let peer = request.peer;
        echo(request);
        Outcome::Ok(peer)
    });
    reply.expecting("a request")?;
    peer
}

pub(super) async fn one_peer_one_source(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let (one, other) = (world.client(&host).await?, world.client(&host).await?);
    let first = peer_of(&mut host, &one).await?;
    ensure_eq!(
        peer_of(&mut host, &one).await?,
        first,
        "the peer of the next request of a connection"
    );
    let beside = peer_of(&mut host, &other).await?;
    ensure!(
        beside.connection != first.connection,
        "two connections are one"
    );
    ensure_eq!(
        beside.source,
        first.source,
        "the source of another connection of the same peer"
    );
    let asked = asking(&world, &one, 1);
    let held = host.requests.next().await?;
    if host.control.disconnect(first) {
        // When its request has ended, the client knows that it was cut.
        let lost = asked.await.expecting("a task of the suite")?;
        is_error(
            &lost,
            ErrorKind::ConnectionLost,
            "the request of the peer that was cut",
        )?;
        drop(held);
        let again = peer_of(&mut host, &one).await?;
        ensure_eq!(
            again.source,
            first.source,
            "the source of a connection that came back"
        );
    } else {
        echo(held);
        let kept = asked.await.expecting("a task of the suite")?;
        kept.expecting("the request of a peer that the backend says it cannot cut")?;
    }
    Ok(())
}
