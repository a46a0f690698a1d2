//! Strangers that begin as a client does. What a client says first is not known to the suite: it is
//! recorded by the proxy.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{places, socket, steady, with_short_handshakes};
use crate::failure::ensure;
use crate::kit::{Dice, Host, Proxy, Raw, World, exact, within};
use crate::{Expecting, Failure, Outcome};

/// Prefixes up to this length are all tried; longer ones are drawn.
const EVERY: usize = 160;

/// What a client says first to each socket of `host`, without its last bytes, which ask something.
pub(super) async fn openings(world: &Arc<World>, host: &Host) -> Outcome<Vec<Vec<u8>>> {
    let mut openings = Vec::new();
    for publications in [false, true] {
        let proxy = Proxy::start(world, &host.bound).await?;
        let caller = world.try_client(&proxy.at, world.limits()).await;
        let caller = caller.expecting("connecting through the proxy")?;
        // Where publications are apart, it is the last connection that is recorded.
        if publications {
            let listener = caller.subscribe(&[exact("recorded")?]).await?;
            openings.push(proxy.said_first());
            drop(listener);
        } else {
            caller.ask("recorded").await.expecting("a request")?;
            openings.push(proxy.said_first());
        }
        caller.shut_down().await?;
    }
    ensure!(
        openings.iter().all(|opening| !opening.is_empty()),
        "the proxy has heard nothing of what a client says first"
    );
    Ok(openings)
}

pub(super) async fn half_handshakes(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.echoing(&world);
    let openings = openings(&world, &host).await?;
    let mut dice = world.dice();
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let (mut open, mut round) = (Vec::new(), 0);
    for place in &places(&world, &host)? {
        for opening in &openings {
            let every = 0..opening.len().min(EVERY);
            let drawn: Vec<_> = (0..20).map(|_| dice.below(opening.len())).collect();
            for length in every.chain(drawn) {
                let mut stream = socket(Raw::connect(place).await)?;
                // The server may have hung up already.
                let _ = stream.write_all(&opening[..length]).await;
                match length % 3 {
                    0 => open.push(stream),
                    1 => socket(stream.reset_at_the_end())?,
                    _ => drop(stream),
                }
                if length % 32 == 0 {
                    round += 1;
                    steady(&host, &caller, &mut listener, round).await?;
                }
            }
        }
    }
    let fresh = world.client(&host).await?;
    let reply = fresh.ask("beside them").await;
    reply.expecting("a request of a client that came beside half handshakes")?;
    drop(open);
    steady(&host, &caller, &mut listener, round + 1).await
}

/// `opening` with a length in it that no message has.
fn spoilt(opening: &[u8], dice: &mut Dice) -> Vec<u8> {
    const LENGTHS: [&[u8]; 5] = [
        &[0xff; 4],
        &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x10, 0, 0, 0],
        &[0, 0, 0, 0x10],
        &[0, 0, 0, 0x10, 0, 0, 0, 0],
    ];
    let mut bytes = opening.to_vec();
    let length = LENGTHS[dice.below(LENGTHS.len())];
    let at = dice.below(bytes.len());
    let end = bytes.len().min(at + length.len());
    bytes[at..end].copy_from_slice(&length[..end - at]);
    bytes
}

pub(super) async fn announced_lengths(world: Arc<World>) -> Outcome {
    const STRANGERS: usize = 600;
    let host = world.serve().await?.echoing(&world);
    let openings = openings(&world, &host).await?;
    let mut dice = world.dice();
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let places = places(&world, &host)?;
    let more = Bytes::from(vec![0x33; 16 * 1024]);
    let attack = async {
        let mut open = Vec::new();
        for n in 0..world.strangers(STRANGERS) {
            let opening = &openings[dice.below(openings.len())];
            let mut stream = socket(Raw::connect(&places[n % places.len()]).await)?;
            // The server may have hung up already, which is what it should do.
            let _ = stream.write_all(&spoilt(opening, &mut dice)).await;
            if n % 2 == 0 {
                let writing = stream.write_all(&more);
                let short = world.clock().after(Duration::from_millis(5));
                let _ = world.clock().deadline(short, writing).await;
            }
            open.push(stream);
            if n % 50 == 0 {
                steady(&host, &caller, &mut listener, n as u64).await?;
            }
        }
        // All at once are there now.
        steady(&host, &caller, &mut listener, u64::MAX).await
    };
    within(128, "strangers that announce lengths", attack).await
}

pub(super) async fn slow_loris(world: Arc<World>) -> Outcome {
    let limits = with_short_handshakes(&world);
    let timeout = limits.handshake_timeout;
    let host = world.serve_with(limits).await?.echoing(&world);
    let openings = openings(&world, &host).await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    for place in &places(&world, &host)? {
        let stream = socket(Raw::connect(place).await)?;
        socket(stream.at_once())?;
        let (mut from, mut to) = tokio::io::split(stream);
        let drip = async {
            for byte in openings.first().into_iter().flatten() {
                if to.write_all(&[*byte]).await.is_err() {
                    break;
                }
                world.clock().pause(timeout * 2 / 5).await;
            }
            std::future::pending::<()>().await;
        };
        let mut said = Vec::new();
        let hung_up = async {
            tokio::select! {
                // In whichever way it hangs up.
                _ = from.read_to_end(&mut said) => {}
                () = drip => {}
            }
        };
        let promised = world.clock().after(timeout * 3);
        let beside = steady(&host, &caller, &mut listener, 1);
        let (cut, beside) = tokio::join!(world.clock().deadline(promised, hung_up), beside);
        beside?;
        cut.map_err(|_| {
            Failure::new(format!(
                "{place}: a handshake of a byte at a time still goes on after three times {timeout:?}"
            ))
        })?;
    }
    Ok(())
}
