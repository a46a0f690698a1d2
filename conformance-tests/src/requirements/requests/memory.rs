//! What requests leave in memory. Each runs in a process of its own, both ends in it.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::{ErrorKind, Request};

use crate::failure::is_error;
use crate::kit::{Caller, Growth, Host, TEST_TIMEOUT, Usage, World, echo, join_all, numbered};
use crate::{Expecting, Outcome};

pub(super) async fn of_answered(world: Arc<World>) -> Outcome {
    const AT_ONCE: u64 = 50;
    const WARM: u64 = 400;
    const ROUNDS: u64 = 1600;
    let host = world.serve().await?.echoing(&world);
    let caller = world.client(&host).await?;
    let mut warm = Usage::now()?;
    for round in 0..WARM + ROUNDS {
        if round == WARM {
            warm = Usage::now()?;
        }
        for reply in join_all((0..AT_ONCE).map(|n| caller.ask(numbered(n, 16)))).await {
            reply.expecting("a request of tens of thousands")?;
        }
    }
    let what = format!("{} requests that were answered", ROUNDS * AT_ONCE);
    warm.grown_by_at_most(3, &what)
}

pub(super) async fn of_failed(world: Arc<World>) -> Outcome {
    const ROUNDS: usize = 9;
    const BYTES: usize = 32;
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut growth = Growth::default();
    for _ in 0..ROUNDS {
        for callers_go in [true, false] {
            let held = given_up(&mut host, &caller, callers_go).await?;
            for (n, request) in held.into_iter().enumerate() {
                // The others are dropped, which is an answer as well.
                if n.is_multiple_of(2) {
                    request.reply.send("too late".into())?;
                }
            }
        }
        // Its answer comes behind those that are late.
        let (reply, answered) = tokio::join!(caller.ask("next"), async {
            host.requests.next().await.map(echo)
        });
        answered?;
        reply.expecting("a request after those that failed")?;
        growth.note()?;
    }
    let what = "requests that failed and were answered afterwards";
    growth.at_most(BYTES, 2 * AT_ONCE, what)
}

/// Requests that are under way at once.
const AT_ONCE: u64 = 500;

/// How long those are waited for whose deadlines pass: time for all of them to arrive.
const PASSING: Duration = Duration::from_millis(1500);

/// Makes requests that fail once the server has them: their callers go, or their deadlines pass. Returns them.
async fn given_up(host: &mut Host, caller: &Caller, callers_go: bool) -> Outcome<Vec<Request>> {
    let limit = if callers_go { TEST_TIMEOUT } else { PASSING };
    let asking = join_all((0..AT_ONCE).map(|n| caller.ask_within(numbered(n, 16), limit)));
    let taking = async {
        let mut held = Vec::new();
        for _ in 0..AT_ONCE {
            held.push(host.requests.next().await?);
        }
        Outcome::Ok(held)
    };
    if callers_go {
        return tokio::select! {
            biased;
            held = taking => held,
            outcomes = asking => {
                let outcome = outcomes.into_iter().next().expecting("a request")?;
                is_error(&outcome, ErrorKind::TimedOut, "a request that nobody answers")?;
                Ok(Vec::new())
            }
        };
    }
    let (outcomes, held) = tokio::join!(asking, taking);
    for outcome in outcomes {
        is_error(
            &outcome,
            ErrorKind::TimedOut,
            "a request that is not answered",
        )?;
    }
    held
}
