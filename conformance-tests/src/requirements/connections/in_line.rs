//! Clients that vanish while no request may be handed out.

use std::collections::HashSet;
use std::sync::Arc;

use saline_protocol::transport::Departure;

use super::peers::all_permits_are_free;
use super::restarts::asking;
use crate::failure::{ensure, ensure_eq};
use crate::kit::{Caller, Host, PING, World, admit, echo, exact, number, topic};
use crate::{Expecting, Failure, Outcome};

/// What the server hands out at once.
const PERMITS: usize = 4;

/// Clients that ask for more than that.
const VANISHING: usize = 2 * PERMITS;

/// The number of the request behind theirs.
const BEHIND: u64 = 1000;

pub(super) async fn vanish_in_line(world: Arc<World>) -> Outcome {
    let mut limits = world.limits();
    limits.requests_unanswered = PERMITS;
    let mut host = world.serve_with(limits).await?;
    let steady = world.client(&host).await?;
    for taken in [0, PERMITS, PERMITS / 2, 0] {
        wave(&world, &mut host, &steady, taken).await?;
    }
    all_permits_are_free(&mut host, &steady, PERMITS).await
}

/// Clients ask for more than may be handed out, and vanish when `taken` of their requests were. Nobody reads the others.
async fn wave(world: &Arc<World>, host: &mut Host, steady: &Caller, taken: usize) -> Outcome {
    let (t, filters) = (topic("t")?, [exact("t")?]);
    let (mut vanishing, mut listeners, mut peers) = (Vec::new(), Vec::new(), HashSet::new());
    for _ in 0..VANISHING {
        let caller = world.client(host).await?;
        listeners.push(caller.subscribe(&filters).await?);
        peers.insert(admit(host, &caller).await?);
        vanishing.push(caller);
    }
    let (mut asked, mut held) = (Vec::new(), Vec::new());
    for (n, caller) in (0..).zip(&vanishing) {
        asked.push(asking(world, caller, n));
        if held.len() < taken {
            held.push(host.requests.next().await?);
        }
    }
    // They have arrived by then, and then the one behind them.
    world.clock().pause(PING / 2).await;
    let behind = asking(world, steady, BEHIND);
    world.clock().pause(PING / 2).await;
    let fresh = world.try_client(&host.bound, world.limits()).await;
    let fresh = fresh.expecting("connecting while no request may be handed out")?;
    let _listener = fresh.subscribe(&filters).await?;
    for caller in &vanishing {
        // No goodbye: its tasks are dropped where they stand.
        caller.context.cancel.cancel();
    }
    asked.iter().for_each(|asked| asked.abort());
    drop((vanishing, listeners));
    let left = || host.publisher.subscriptions(&t) == 1;
    let what = "clients that vanished while no request may be handed out are noticed";
    world.eventually(what, left).await?;
    if world.transport.capabilities().departures {
        while !peers.is_empty() {
            match host.departures.next().await? {
                Some(Departure::Gone(peer)) if peers.remove(&peer) => {}
                other => {
                    let left = peers.len();
                    return Err(Failure::new(format!(
                        "departures yielded {other:?}, {left} of clients that vanished are not told"
                    )));
                }
            }
        }
    }
    drop(held);
    // Requests of those that have gone may be handed out before it, and cost as much as any other.
    for _ in 0..=VANISHING {
        let next = host.requests.next().await;
        let next = next.map_err(|failure| {
            failure.within("a request that stood in line behind those of clients that vanished")
        })?;
        if number(&next.payload) == BEHIND {
            echo(next);
            let reply = behind.await.expecting("a task of the suite")?;
            let reply = reply.expecting("the request behind those of clients that vanished")?;
            ensure_eq!(number(&reply), BEHIND, "its reply");
            return fresh.shut_down().await;
        }
    }
    ensure!(false, "more requests were handed out than were made");
    Ok(())
}
