//! Datagrams of strangers, and of peers that are connected.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::{ErrorKind, Metric};
use tokio::net::UdpSocket;

use super::{places, socket, steady};
use crate::failure::{ensure, ensure_eq};
use crate::kit::{
    Growth, Host, PING, Place, Proxy, World, alive_tasks, exact, join_all, numbered, payload,
    within,
};
use crate::{Expecting, Failure, Outcome};

/// The first datagrams of so many real clients, which the server has not had: one that it knows may belong to a connection.
async fn firsts(world: &Arc<World>, host: &Host, count: usize) -> Outcome<Vec<Vec<u8>>> {
    let mut firsts = Vec::new();
    for _ in 0..count {
        let proxy = Proxy::start(world, &host.bound).await?;
        proxy.black_hole();
        let (own, at) = (Arc::clone(world), proxy.at.clone());
        let connecting =
            world.spawn(async move { own.try_client(&at, own.unhurried()).await.map(drop) });
        let what = "the proxy hears what a client says first";
        let heard = || !proxy.said_first().is_empty();
        world.eventually(what, heard).await?;
        connecting.abort();
        firsts.push(proxy.said_first());
    }
    Ok(firsts)
}

/// Where the datagrams of `host` go.
fn addresses(world: &World, host: &Host) -> Outcome<Vec<SocketAddr>> {
    let address = |place| match place {
        Place::Address(address) => Ok(address),
        other => Err(Failure::new(format!("{other} is no address"))),
    };
    places(world, host)?.into_iter().map(address).collect()
}

pub(super) async fn forged(world: Arc<World>) -> Outcome {
    const ROUNDS: usize = 5;
    const FORGED: usize = 1000;
    /// What may be under way before addresses have to be proven.
    const TASKS: usize = 256;
    let mut limits = world.unhurried();
    // What is kept stays for the whole run.
    limits.handshake_timeout = Duration::from_secs(60);
    let host = world.serve_with(limits).await?.echoing(&world);
    let firsts = firsts(&world, &host, 8).await?;
    let caller = world.client_with(&host, world.unhurried()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    steady(&host, &caller, &mut listener, 0).await?;
    let to = addresses(&world, &host)?;
    let (before, mut growth) = (alive_tasks(), Growth::default());
    growth.note()?;
    for round in 0..ROUNDS {
        for n in 0..FORGED {
            // An address that never answers, and that nothing else has.
            let [high, low] = ((round * FORGED + n) as u16).to_be_bytes();
            let from = Ipv4Addr::new(127, 251, high, low);
            let forger = socket(std::net::UdpSocket::bind((from, 0)))?;
            // One that is lost is as good as one that is thrown away.
            let _ = forger.send_to(&firsts[n % firsts.len()], to[n % to.len()]);
            if n % 50 == 0 {
                // Those before it are read by then.
                steady(&host, &caller, &mut listener, n as u64).await?;
            }
        }
        growth.note()?;
    }
    let more = alive_tasks().saturating_sub(before);
    ensure!(
        more <= TASKS,
        "{} forged first datagrams left {more} tasks, of which {TASKS} are allowed",
        ROUNDS * FORGED
    );
    growth.at_most(512, FORGED as u64, "forged first datagrams")?;
    let fresh = world.client_with(&host, world.unhurried()).await?;
    let reply = fresh.ask("after them").await;
    reply.expecting("a request of a client that came after forged datagrams")?;
    Ok(())
}

pub(super) async fn amplification(world: Arc<World>) -> Outcome {
    let host = world.serve_with(world.unhurried()).await?.echoing(&world);
    let mut sent = firsts(&world, &host, 4).await?;
    let garbage = [1, 9, 100, 1200].map(|size| payload(size as u64, size).to_vec());
    sent.extend(garbage);
    let to = addresses(&world, &host)?;
    let mut answers = Vec::new();
    for datagram in &sent {
        for to in &to {
            let stranger = socket(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await)?;
            // Nobody else's datagrams count, who may still send to whoever had this port before.
            socket(stranger.connect(to).await)?;
            socket(stranger.send(datagram).await)?;
            answers.push(answered(&world, stranger, datagram.len()));
        }
    }
    join_all(answers).await.into_iter().collect()
}

/// Fails when much more comes back to `stranger` than the `sent` bytes.
async fn answered(world: &World, stranger: UdpSocket, sent: usize) -> Outcome {
    const WATCHED_TIME: Duration = Duration::from_secs(2);
    /// What RFC 9000 allows for an address that is not proven, in 8.1.
    const TIMES: usize = 3;
    let (mut buffer, mut bytes) = (vec![0; 65_536], 0);
    let reading = async {
        while let Ok(count) = stranger.recv(&mut buffer).await {
            bytes += count;
        }
    };
    let watched = world.clock().after(WATCHED_TIME);
    // It is over when nothing more is waited for.
    let _ = world.clock().deadline(watched, reading).await;
    ensure!(
        bytes <= TIMES * sent,
        "a datagram of {sent} bytes from an address that has not answered was answered with {bytes}"
    );
    Ok(())
}

pub(super) async fn malformed(world: Arc<World>) -> Outcome {
    const REQUESTS: u64 = 60;
    let host = world.serve_with(world.unhurried()).await?.echoing(&world);
    let caller = world.client_with(&host, world.unhurried()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let proxy = Proxy::start(&world, &host.bound).await?;
    let victim = world.try_client(&proxy.at, world.limits()).await;
    let victim = victim.expecting("connecting through the proxy")?;
    victim.ask("before").await.expecting("a request")?;
    proxy.add_malformed(true);
    for n in 0..REQUESTS {
        // Its own connection may end by them.
        let _ = victim.ask_within(numbered(n, 3000), PING).await;
        steady(&host, &caller, &mut listener, n).await?;
    }
    proxy.add_malformed(false);
    let mut reply = victim.ask("after them").await;
    if reply
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::ConnectionLost)
    {
        // The last of them may be read when this request is under way, and end its connection.
        reply = victim.ask("after them").await;
    }
    reply.expecting("a request of the peer that sent malformed datagrams, when it does no more")?;
    steady(&host, &caller, &mut listener, REQUESTS).await?;
    ensure_eq!(
        caller.counters.get(Metric::Disconnected),
        0,
        "links lost by a client that sent nothing malformed"
    );
    Ok(())
}

pub(super) async fn garbage_datagrams(world: Arc<World>) -> Outcome {
    let host = world.serve_with(world.unhurried()).await?.echoing(&world);
    let proxy = Proxy::start(&world, &host.bound).await?;
    let recorded = world.try_client(&proxy.at, world.limits()).await;
    let recorded = recorded.expecting("connecting through the proxy")?;
    let first = proxy.said_first();
    recorded.shut_down().await?;
    let mut dice = world.dice();
    let caller = world.client_with(&host, world.unhurried()).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let places = places(&world, &host)?;
    let attack = async {
        for n in 0..200 {
            let stranger = socket(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await)?;
            for _ in 0..25 {
                let mut datagram = match dice.percent(50) {
                    true => first.clone(),
                    false => payload(dice.roll(), dice.below(1400)).to_vec(),
                };
                if !datagram.is_empty() {
                    let at = dice.below(datagram.len());
                    datagram[at] ^= 1 << dice.below(8);
                }
                // One that is lost is as good as one that is thrown away.
                let to = &places[dice.below(places.len())];
                if let Place::Address(to) = to {
                    let _ = stranger.send_to(&datagram, to).await;
                }
            }
            if n % 10 == 0 {
                steady(&host, &caller, &mut listener, n).await?;
            }
        }
        Ok(())
    };
    within(128, "datagrams of strangers", attack).await
}
