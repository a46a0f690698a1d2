//! The admission of a peer to which more is owed than a stranger may be.

use std::ops::Range;
use std::sync::Arc;

use saline_protocol::transport::Result;
use tokio::task::JoinHandle;

use super::admission::{LONG, tight};
use crate::failure::ensure_eq;
use crate::kit::{Caller, PING, Proxy, TEST_TIMEOUT, World, echo, join_all, number, numbered};
use crate::{Expecting, Outcome};

/// Bytes of an answer.
const ANSWER: usize = 64 * 1024;

/// Answers that wait, a multiple of this in each round: in one of them those for which windows and buffers of the system have no
/// room are more than a stranger may be owed, and less than anybody may be.
const STEP: u64 = 14;
const ROUNDS: u64 = 8;

/// Requests behind them that the server may still read, and as many that it may not.
const BEHIND: u64 = 20;

/// What the connection carries in a second while the answers wait.
const PACE: usize = 64 * 1024;

pub(super) async fn admitted_while_much_is_owed(world: Arc<World>) -> Outcome {
    let mut limits = tight(&world, |limits| limits.queue_bytes = 2 * ANSWER);
    // No ping wakes anybody, and nobody is cut for silence.
    limits.ping_interval = LONG;
    let mut host = world.serve_with(limits.clone()).await?;
    let proxy = Proxy::start(&world, &host.bound).await?;
    for round in 1..=ROUNDS {
        let caller = world.try_client(&proxy.at, limits.clone()).await;
        let caller = caller.expecting("connecting through the proxy")?;
        proxy.throttle(PACE);
        let large = round * STEP;
        let first = ask(&world, &caller, 0..large);
        let (mut held, mut peer) = (Vec::new(), None);
        for _ in 0..large {
            let request = host.requests.next().await?;
            peer = Some(request.peer);
            held.push(request);
        }
        for request in held {
            let answer = numbered(number(&request.payload), ANSWER);
            request.reply.send(answer)?;
        }
        // By then the server has written every answer for which windows and buffers have room.
        world.clock().pause(PING / 2).await;
        let second = ask(&world, &caller, large..large + BEHIND);
        world.clock().pause(PING / 4).await;
        let third = ask(&world, &caller, large + BEHIND..large + 2 * BEHIND);
        world.clock().pause(PING / 4).await;
        host.control.admitted(peer.expecting("a request")?);
        proxy.throttle(0);
        for _ in 0..2 * BEHIND {
            let next = host.requests.next().await;
            let next = next.map_err(|failure| {
                failure.within("a request of a peer that was admitted while much was owed to it")
            })?;
            echo(next);
        }
        let mut n = 0;
        for asked in [first, second, third] {
            for reply in asked.await.expecting("a task of the suite")? {
                let reply = reply.expecting(format!("request {n} of round {round}"))?;
                ensure_eq!(number(&reply), n, "the reply of request {n}");
                n += 1;
            }
        }
        caller.shut_down().await?;
    }
    Ok(())
}

/// Makes requests with these numbers, at once and in their order.
fn ask(
    world: &World,
    caller: &Caller,
    numbers: Range<u64>,
) -> JoinHandle<Vec<Result<bytes::Bytes>>> {
    let caller = caller.clone();
    let ask = move |n| {
        let caller = caller.clone();
        async move { caller.ask_within(numbered(n, 16), TEST_TIMEOUT * 2).await }
    };
    world.spawn(join_all(numbers.map(ask)))
}
