//! What strangers leave in memory. Runs in a process of its own, both ends in it.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::failure::ensure;
use crate::kit::{Growth, Place, Raw, TEST_TIMEOUT, Usage, World, alive_tasks, join_all, recorded};
use crate::{Failure, Outcome};

/// Strangers that are there at once.
const AT_ONCE: usize = 25;

/// Descriptors, threads and tasks that may be more than before: those of pools that grow once.
const SPARE: usize = 8;

pub(super) async fn memory(world: Arc<World>) -> Outcome {
    const ROUNDS: usize = 9;
    // Inside of the transport's own connections each costs this process both of its ends, with whatever handshake they have.
    let (crowd, bytes) = match world.is_inside() {
        true => (
            std::env::var("CROWD").map_or(250, |c| c.parse().unwrap()),
            32,
        ),
        false => (1000, 32),
    };
    let host = world.serve().await?.echoing(&world);
    let [script, _] = recorded(&world, &host, async |_| Ok(())).await?;
    let opening = script.opening.concat();
    ensure!(opening.len() > 1, "a client says nothing when it connects");
    let place = world.place(&host.bound.requests)?;
    for (said, what) in [
        (&opening[..], "strangers that greeted and went"),
        (&opening[..1], "strangers that half greeted and went"),
    ] {
        let is_whole = said.len() == opening.len();
        let (idle, before) = (alive_tasks(), Usage::now()?);
        let mut growth = Growth::default();
        for _ in 0..ROUNDS {
            for _ in 0..crowd / AT_ONCE {
                let visits = (0..AT_ONCE).map(|_| visit(&world, &place, said, is_whole));
                let gone = join_all(visits).await;
                gone.into_iter().collect::<Outcome>()?;
            }
            before.back_to(SPARE, what).await?;
            settle(&world, idle).await;
            growth.note()?;
        }
        growth.at_most(bytes, crowd as u64, what)?;
    }
    Ok(())
}

/// Connects, says `said`, waits for an answer to it if one `is_due`, and goes.
async fn visit(world: &World, place: &Place, said: &[u8], is_due: bool) -> Outcome {
    let stranger = Raw::connect(place).await;
    let mut stranger =
        stranger.map_err(|error| Failure::new(format!("the connection of a stranger: {error}")))?;
    // The server may have hung up already.
    let _ = stranger.write_all(said).await;
    let _ = stranger.flush().await;
    let mut answer = [0; 1];
    let until = match is_due {
        true => world.clock().after(TEST_TIMEOUT),
        // Long enough for most to be read before they go.
        false => world.clock().after(Duration::from_millis(2)),
    };
    let answered = world.clock().deadline(until, stranger.read(&mut answer));
    // None comes from a server that has hung up.
    let _ = answered.await;
    Ok(())
}

/// Waits until about as many tasks run as before, but not for long: what a transport keeps for a while of connections that ended
/// is as much after each round.
async fn settle(world: &World, idle: usize) {
    let enough = world.clock().after(Duration::from_secs(1));
    while alive_tasks() > idle + SPARE && world.clock().now() < enough {
        world.clock().pause(Duration::from_millis(5)).await;
    }
}
