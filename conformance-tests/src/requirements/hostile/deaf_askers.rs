//! Strangers that ask more than a server hands out at once, and never read the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use super::replays::{in_one_piece, say_opening};
use super::{places, socket, steady};
use crate::failure::ensure;
use crate::kit::{Raw, TEST_TIMEOUT, World, echo, exact, number, numbered, recorded};
use crate::{Expecting, Outcome};

/// What the server hands out at once.
const PERMITS: usize = 16;

/// How many ask and do not read.
const STRANGERS: usize = 8;

/// The bytes of what they ask: a few hundred answers are more than a socket takes.
const SIZE: usize = 16 * 1024;

/// And how many of each: much more than all that a socket, a library and a bounded queue take.
const ASKED_EACH: usize = 2000;

/// How long they have for it at least.
const ASKING_TIME: Duration = Duration::from_secs(3);

/// The number of their request.
const ASKED: u64 = u64::MAX / 3;

/// Longer than anybody waits here.
const LONG_PING: Duration = Duration::from_secs(120);

/// Requests of a client that reads, when no stranger is read any more.
const AFTERWARDS: u64 = 50;

pub(super) async fn deaf_askers(world: Arc<World>) -> Outcome {
    // Nobody is given up for being silent.
    let mut limits = world.limits();
    limits.ping_interval = LONG_PING;
    limits.requests_unanswered = PERMITS;
    limits.requests_in_flight = PERMITS;
    let heard = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&heard);
    let host = world.serve_with(limits.clone()).await?;
    let host = host.answering(&world, move |request| {
        if number(&request.payload) == ASKED {
            counting.fetch_add(1, Ordering::Relaxed);
        }
        echo(request);
    });
    let [mut script, _] = recorded(&world, &host, async |caller| {
        let asked = caller.ask(numbered(ASKED, SIZE)).await;
        asked.map(drop).expecting("a request through the proxy")
    })
    .await?;
    ensure!(
        !script.said.is_empty(),
        "the proxy has heard nothing of what a client asks"
    );
    let mut rounds = ASKED_EACH;
    if world.is_inside() {
        script.said = vec![in_one_piece(&script.said)];
        rounds /= script.said[0].len() / SIZE;
    }
    let caller = world.client_with(&host, limits).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let places = places(&world, &host)?;
    let place = places.first().expecting("where requests go")?;
    let enough = CancellationToken::new();
    let mut asking = Vec::new();
    for _ in 0..STRANGERS {
        let mut stream = socket(Raw::connect(place).await)?;
        socket(stream.keep_little())?;
        let (script, enough) = (script.clone(), enough.clone());
        asking.push(world.spawn(async move {
            let talk = async {
                say_opening(&mut stream, &script).await?;
                for _ in 0..rounds {
                    for piece in &script.said {
                        stream.write_all(piece).await?;
                    }
                }
                std::io::Result::Ok(())
            };
            // Hung up on, or left waiting: either ends it, and the connection stays.
            let _ = enough.run_until_cancelled(talk).await;
            stream
        }));
    }
    let came_to_something = || heard.load(Ordering::Relaxed) > 2 * PERMITS;
    let begin = world.clock().now();
    let mut n = 0;
    while asking.iter().any(|task| !task.is_finished()) {
        n += 1;
        steady(&host, &caller, &mut listener, n).await?;
        world.clock().pause(Duration::from_millis(20)).await;
        let passed = world.clock().now() - begin;
        if passed >= ASKING_TIME && came_to_something() || passed >= TEST_TIMEOUT {
            break;
        }
    }
    enough.cancel();
    for n in n..n + AFTERWARDS {
        steady(&host, &caller, &mut listener, n).await?;
    }
    // What was recorded under encryption says nothing a second time; the run inside of the connections is that backend's.
    let may_be_encrypted = !world.is_inside() && world.backend().raw().is_some();
    ensure!(
        may_be_encrypted || came_to_something(),
        "the strangers came to nothing: {} of their requests were handed out",
        heard.load(Ordering::Relaxed)
    );
    Ok(())
}
