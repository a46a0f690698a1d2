//! What strangers leave in memory. Runs in a process of its own, both ends in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::failure::ensure;
use crate::kit::{Growth, Place, Raw, Usage, World, alive_tasks, echo, join_all, recorded};
use crate::{Failure, Outcome};

/// Strangers that are there at once: few beside those that come after each other, since what is freed of them hides what leaks.
const AT_ONCE: usize = 25;

/// Descriptors, threads and tasks that may be more than before: those of pools that grow once.
const SPARE: usize = 8;

/// Rounds that are judged together, and the most of them: allocators and pools may still grow in the first ones.
const ROUNDS: usize = 7;
const MOST_ROUNDS: usize = 12;

/// How long a stranger waits for an answer to a part of its greeting that may have none, and to the whole of it.
const PART: Duration = Duration::from_millis(100);
const WHOLE: Duration = Duration::from_secs(1);

/// How long it stays when it has half greeted, so that most are read before they go.
const HALF: Duration = Duration::from_millis(5);

/// An answer is whole when nothing has followed for so long.
const SILENCE: Duration = Duration::from_millis(5);

/// What a stranger says, and how long it waits for an answer to the last piece.
struct Opening {
    pieces: Vec<Vec<u8>>,
    last_wait: Duration,
}

pub(super) async fn memory(world: Arc<World>) -> Outcome {
    // Inside of the transport's own connections each costs this process both of its ends, with whatever handshake they have.
    let (crowd, bytes) = match world.is_inside() {
        true => (100, 64),
        false => (600, 32),
    };
    let heard = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&heard);
    let host = world.serve().await?;
    let host = host.answering(&world, move |request| {
        counting.fetch_add(1, Ordering::Relaxed);
        echo(request);
    });
    let [recorded, _] = recorded(&world, &host, async |_| Ok(())).await?;
    let Some(first) = recorded.opening.first().filter(|first| !first.is_empty()) else {
        return Err(Failure::new("a client says nothing when it connects"));
    };
    let half = Opening {
        pieces: vec![first[..first.len().div_ceil(2)].to_vec()],
        last_wait: HALF,
    };
    let whole = Opening {
        pieces: recorded.opening,
        last_wait: WHOLE,
    };
    let place = world.place(&host.bound.requests)?;
    let before = heard.load(Ordering::Relaxed);
    let what = "strangers that greeted and went";
    let came = crowd_after_crowd(&world, &place, &whole, (crowd, bytes), what).await?;
    // What was recorded under encryption says nothing a second time; the run inside of the connections is that backend's.
    let may_be_encrypted = !world.is_inside() && world.backend().raw().is_some();
    let greeted = heard.load(Ordering::Relaxed) - before;
    ensure!(
        may_be_encrypted || greeted >= came / 2,
        "the strangers came to nothing: {greeted} of {came} were heard"
    );
    let what = "strangers that half greeted and went";
    crowd_after_crowd(&world, &place, &half, (crowd, bytes), what).await?;
    Ok(())
}

/// Has crowds of strangers say an opening and go, until as many rounds as are judged left at most `bytes` for each of
/// them. Returns how many came.
async fn crowd_after_crowd(
    world: &World,
    place: &Place,
    opening: &Opening,
    (crowd, bytes): (usize, usize),
    what: &str,
) -> Outcome<u64> {
    let (idle, before) = (alive_tasks(), Usage::now()?);
    let mut growth = Growth::default();
    let mut came = 0;
    for round in 1..=MOST_ROUNDS {
        for _ in 0..crowd / AT_ONCE {
            let visits = (0..AT_ONCE).map(|_| visit(world, place, opening));
            let gone = join_all(visits).await;
            gone.into_iter().collect::<Outcome>()?;
        }
        came += crowd as u64;
        before.back_to(SPARE, what).await?;
        settle(world, idle).await;
        growth.note()?;
        let judged = growth
            .of_the_last(ROUNDS)
            .at_most(bytes, crowd as u64, what);
        match judged {
            Ok(()) if round >= ROUNDS => break,
            Err(failure) if round == MOST_ROUNDS => return Err(failure),
            _ => {}
        }
    }
    Ok(came)
}

/// Connects, says the pieces of `opening` at the pace of a client that waits for answers, and goes.
async fn visit(world: &World, place: &Place, opening: &Opening) -> Outcome {
    let stranger = Raw::connect(place).await;
    let mut stranger =
        stranger.map_err(|error| Failure::new(format!("the connection of a stranger: {error}")))?;
    for (n, piece) in (1..).zip(&opening.pieces) {
        // The server may have hung up already.
        let _ = stranger.write_all(piece).await;
        let _ = stranger.flush().await;
        let is_last = n == opening.pieces.len();
        let most = if is_last { opening.last_wait } else { PART };
        answered(world, &mut stranger, most).await;
    }
    Ok(())
}

/// Reads what the server says next, if it does within `most`.
async fn answered(world: &World, stranger: &mut Raw, most: Duration) {
    let clock = world.clock();
    let (mut answer, mut wait) = ([0; 1024], most);
    loop {
        let read = clock.deadline(clock.after(wait), stranger.read(&mut answer));
        let Ok(Ok(1..)) = read.await else {
            return;
        };
        wait = SILENCE;
    }
}

/// Waits until about as many tasks run as before, but not for long: what a transport keeps for a while of connections that ended
/// is as much after each round.
async fn settle(world: &World, idle: usize) {
    let enough = world.clock().after(Duration::from_secs(1));
    while alive_tasks() > idle + SPARE && world.clock().now() < enough {
        world.clock().pause(Duration::from_millis(5)).await;
    }
}
