//! Endpoints: names, ports, paths.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{ErrorKind, ServeAt};

use super::restarts::cut;
use crate::failure::{ensure, ensure_eq, is_error, not_later};
use crate::kit::{Host, TEST_TIMEOUT, World, exact, topic};
use crate::{Expecting, Outcome};

pub(super) async fn server_absent(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let at = host.bound.clone();
    host.kill().await?;
    let mut limits = world.limits();
    limits.connect_timeout = Duration::from_secs(2);
    for _ in 0..3 {
        let started = world.clock().now();
        let outcome = world.try_client(&at, limits.clone()).await;
        is_error(
            &outcome,
            ErrorKind::Unreachable,
            "connecting where nothing is served",
        )?;
        not_later(
            world.clock(),
            started + limits.connect_timeout * 3,
            "connecting where nothing is served",
        )?;
    }
    let host = world.serve_again(&at).await?.echoing(&world);
    let caller = world.client(&host).await?;
    caller
        .ask("here now")
        .await
        .expecting("a request to the server that came")?;
    Ok(())
}

pub(super) async fn servers_do_not_mix(world: Arc<World>) -> Outcome {
    let mut pairs = Vec::new();
    for name in ["one", "two", "three"] {
        let host = world.serve().await?.answering(&world, move |request| {
            // A reply this short is never too large.
            let _ = request.reply.send(name.into());
        });
        let caller = world.client(&host).await?;
        let listener = caller.subscribe(&[exact("t")?]).await?;
        pairs.push((name, host, caller, listener));
    }
    for _ in 0..20 {
        for (name, host, caller, _) in &mut pairs {
            let reply = caller.ask("who are you").await;
            ensure_eq!(
                reply.expecting("a request to one of three servers")?,
                Bytes::from(*name),
                "the reply"
            );
            host.publish(&topic("t")?, *name).await?;
        }
        for (name, _, _, listener) in &mut pairs {
            ensure_eq!(
                listener.message().await?.1,
                Bytes::from(*name),
                "the publication"
            );
        }
    }
    Ok(())
}

pub(super) async fn port_zero(world: Arc<World>) -> Outcome {
    let serve = async || {
        let host = world.try_serve(world.at_port_zero(), world.limits()).await;
        host.expecting("serving at port 0")
    };
    let (first, second) = (serve().await?, serve().await?);
    let mut ports = Vec::new();
    for host in [&first, &second] {
        let at = [Some(&host.bound.requests), host.bound.publications.as_ref()];
        for endpoint in at.into_iter().flatten() {
            let port = endpoint.port().expecting("the port of what was bound")?;
            ensure!(port != 0, "bound says port 0: {endpoint}");
            ensure!(!ports.contains(&port), "port {port} was bound twice");
            ports.push(port);
        }
    }
    Ok(())
}

pub(super) async fn endpoint_in_use(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.echoing(&world);
    let caller = world.client(&host).await?;
    for _ in 0..3 {
        let second = world.try_serve(host.bound.clone(), world.limits()).await;
        is_error(&second, ErrorKind::Refused, "serving where a server runs")?;
        caller
            .ask("still there")
            .await
            .expecting("a request to the server that runs")?;
        world.client(&host).await?;
    }
    Ok(())
}

/// Requests and publications at `at`, which is fresh.
async fn works(world: &World, at: ServeAt) -> Outcome<Host> {
    let host = world.try_serve(at, world.limits()).await;
    let host = host.expecting("serving")?.echoing(world);
    let caller = world.client(&host).await?;
    let reply = caller.ask("hello").await.expecting("a request")?;
    ensure_eq!(reply, Bytes::from("hello"), "the reply");
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    host.publish(&topic("t")?, "news").await?;
    ensure_eq!(
        listener.message().await?.1,
        Bytes::from("news"),
        "the publication"
    );
    caller.shut_down().await?;
    Ok(host)
}

pub(super) async fn named(world: Arc<World>, host: &str) -> Outcome {
    works(&world, world.fresh_on(host)).await.map(drop)
}

pub(super) async fn next_address(world: Arc<World>) -> Outcome {
    use saline_protocol::transport::Address;
    let (absent, host) = (world.serve().await?, world.serve().await?);
    let gone = absent.bound.clone();
    absent.kill().await?;
    let mut at = host.bound.clone();
    if let (
        Address::Network { addresses, .. },
        Address::Network {
            addresses: dead, ..
        },
    ) = (&mut at.requests.address, &gone.requests.address)
    {
        addresses.splice(0..0, dead.iter().cloned());
    }
    let caller = world.try_client(&at, world.limits()).await;
    let caller = caller.expecting("connecting to two addresses, the first of which refuses")?;
    let again = cut(&world, host, &caller).await?;
    let host = world.serve_again(&again).await?.echoing(&world);
    caller
        .ask("second")
        .await
        .expecting("a request after the second address came back")?;
    host.kill().await?;
    let first = world.serve_again(&gone).await?.echoing(&world);
    // The link may still count as up for the first of these.
    let mut answered = false;
    for _ in 0..2 {
        answered |= caller.ask("first").await.is_ok();
    }
    ensure!(
        answered,
        "the first address came up, the second went, and no request was answered"
    );
    // Both answer: it is the first that counts.
    let second = world.serve_again(&again).await?.answering(&world, drop);
    for _ in 0..3 {
        let fresh = world.try_client(&at, world.limits()).await;
        let fresh = fresh.expecting("connecting to two addresses that answer")?;
        let reply = fresh.ask("which?").await;
        reply.expecting("a request to the first of two addresses")?;
        fresh.shut_down().await?;
    }
    drop((first, second));
    Ok(())
}

pub(super) async fn local_endpoint(world: Arc<World>) -> Outcome {
    for _ in 0..3 {
        let at = world.fresh_local();
        let host = works(&world, at.clone()).await?;
        let second = world.try_serve(at, world.limits()).await;
        is_error(
            &second,
            ErrorKind::Refused,
            "serving a path where a server runs",
        )?;
        let caller = world.client(&host).await?;
        caller
            .ask("still there")
            .await
            .expecting("a request to the server that runs")?;
        host.shut_down(TEST_TIMEOUT)
            .await?
            .expecting("shutting down")?;
    }
    let nobody = world.try_client(&world.fresh_local(), world.limits()).await;
    is_error(
        &nobody,
        ErrorKind::Unreachable,
        "connecting to a path where nothing is served",
    )
}
