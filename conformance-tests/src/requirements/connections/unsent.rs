//! Requests that a link had not begun to take when it broke.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use saline_protocol::transport::ErrorKind;

use super::restarts::asking;
use crate::failure::ensure;
use crate::kit::{PING, TEST_TIMEOUT, World, join_all, number, numbered};
use crate::{Expecting, Failure, Outcome};

/// Bytes of a large request. The one behind each is small, and may share a write with the next.
const LARGE: usize = 256 << 10;
const SMALL: usize = 16;

/// Requests that are made while the server reads nothing, half of them large.
const COUNT: usize = 440;

/// Of these, the most that find room on the way: in windows, queues, and buffers of the system. A library may count messages and
/// not bytes.
const UNDER_WAY: usize = 340;

pub(super) async fn unsent_requests_wait(world: Arc<World>) -> Outcome {
    let mut limits = world.unhurried();
    limits.requests_unanswered = 1;
    let mut host = world.serve_with(limits.clone()).await?;
    let caller = world.client_with(&host, limits).await?;
    let first = asking(&world, &caller, COUNT as u64);
    let held = host.requests.next().await?;
    let all = world.spawn({
        let caller = caller.clone();
        let ask = move |n| {
            let caller = caller.clone();
            let size = if n % 2 == 0 { LARGE } else { SMALL };
            // A busy machine takes its time for all of them.
            async move { caller.ask_within(numbered(n, size), TEST_TIMEOUT * 4).await }
        };
        join_all((0..COUNT as u64).map(ask))
    });
    // By then the link has taken every request for which it has room.
    world.clock().pause(PING * 5).await;
    host.kill().await?;
    drop((first, held));
    let runs: Arc<[AtomicUsize]> = (0..COUNT).map(|_| AtomicUsize::new(0)).collect();
    let counted = Arc::clone(&runs);
    let host = world.serve_again(&host.bound).await?;
    let host = host.answering(&world, move |request| {
        let run = usize::try_from(number(&request.payload)).ok();
        if let Some(run) = run.and_then(|n| counted.get(n)) {
            run.fetch_add(1, Ordering::Relaxed);
        }
        // A reply this short is never too large.
        let _ = request.reply.send("here".into());
    });
    let mut has_waited = false;
    let outcomes = all.await.expecting("a task of the suite")?;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let runs = runs[n].load(Ordering::Relaxed);
        let what = format!("request {n} of {COUNT} that the server did not read");
        match outcome.map_err(|error| error.kind()) {
            Ok(_) => {
                has_waited = true;
                ensure!(runs == 1, "{what} was answered, and ran {runs} times");
            }
            // One that had come as a whole is told what became of it, if there is time.
            Err(kind @ (ErrorKind::ConnectionLost | ErrorKind::NoReply)) => {
                ensure!(
                    !has_waited && n < UNDER_WAY,
                    "{what} ended with {kind:?}, although those before it fill all room on the way"
                );
                ensure!(
                    runs == 0,
                    "{what} was lost, and ran {runs} times afterwards"
                );
            }
            Err(kind) => return Err(Failure::new(format!("{what} ended with {kind:?}"))),
        }
    }
    drop(host);
    Ok(())
}
