//! Bounds of those that are not admitted yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use saline_protocol::transport::{AdmissionLimits, Delivery, Limits, Metric};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::failure::{ensure, ensure_eq, not_later};
use crate::kit::{
    Caller, Host, PATIENCE, PING, Place, Raw, World, admit, exact, number, numbered, recorded,
};
use crate::{Expecting, Failure, Outcome};

/// Longer than any run.
const LONG: Duration = Duration::from_secs(60);

/// The suite's limits, with those before admission that `change` makes.
fn tight(world: &World, change: impl FnOnce(&mut AdmissionLimits)) -> Limits {
    let mut limits = world.limits();
    let mut admission = AdmissionLimits::default();
    admission.time = LONG;
    change(&mut admission);
    limits.admission = Some(admission);
    limits
}

/// A request of `size` bytes that has to arrive, and to be answered.
async fn passes(host: &mut Host, caller: &Caller, n: u64, size: usize) -> Outcome {
    let (reply, arrived) = tokio::join!(caller.ask(numbered(n, size)), async {
        let request = host.requests.next().await?;
        let (number, length) = (number(&request.payload), request.payload.len());
        request.reply.send("here".into())?;
        Outcome::Ok((number, length))
    });
    reply.expecting(format!("a request of {size} bytes"))?;
    ensure_eq!(arrived?, (n, size), "number and size of the request");
    Ok(())
}

pub(super) async fn messages(world: Arc<World>) -> Outcome {
    const MOST: usize = 5000;
    let limits = tight(&world, |limits| limits.max_message = MOST);
    let mut host = world.serve_with(limits).await?;
    let (known, stranger) = (world.client(&host).await?, world.client(&host).await?);
    let peer = admit(&mut host, &known).await?;
    let mut listener = stranger.subscribe(&[exact("t")?]).await?;
    for (round, size) in (0..).zip([MOST + 1, 100_000, 10_000_000]) {
        passes(&mut host, &stranger, 10 * round, MOST).await?;
        let outcome = stranger.ask(numbered(10 * round + 1, size)).await;
        ensure!(
            outcome.is_err(),
            "a request of {size} bytes of a peer that is not admitted was answered"
        );
        listener.link(&Delivery::Disconnected).await?;
        listener.link(&Delivery::Connected).await?;
        // Whatever was handed out before would be in the way.
        passes(&mut host, &known, 10 * round + 2, size).await?;
        passes(&mut host, &stranger, 10 * round + 3, MOST).await?;
    }
    ensure_eq!(
        host.counters.get(Metric::PeersRefused),
        3,
        "peers that were counted as refused"
    );
    // Admitted, the same client may say as much.
    admit(&mut host, &stranger).await?;
    passes(&mut host, &stranger, 100, 100_000).await?;
    ensure_eq!(
        admit(&mut host, &known).await?,
        peer,
        "the peer that was admitted all the time"
    );
    Ok(())
}

pub(super) async fn time(world: Arc<World>) -> Outcome {
    let time = Duration::from_secs(2);
    let mut limits = tight(&world, |limits| limits.time = time);
    // Nobody is cut for silence.
    limits.ping_interval = LONG;
    let mut host = world.serve_with(limits.clone()).await?;
    let known = world.client_with(&host, limits.clone()).await?;
    let peer = admit(&mut host, &known).await?;
    let mut undisturbed = known.subscribe(&[exact("t")?]).await?;
    let started = world.clock().now();
    let stranger = world.client_with(&host, limits).await?;
    let mut cut = stranger.subscribe(&[exact("t")?]).await?;
    cut.link(&Delivery::Disconnected).await?;
    ensure!(
        world.clock().now() >= started + time,
        "a peer that was not admitted was cut before {time:?}"
    );
    not_later(
        world.clock(),
        started + time * 3,
        "the end of a peer that is not admitted, three times its time",
    )?;
    // The client may see its end before the server has counted it.
    world
        .eventually("it is counted as refused", || {
            host.counters.get(Metric::PeersRefused) >= 1
        })
        .await?;
    stranger.shut_down().await?;
    let disturbed = undisturbed.within(time * 2, "").await;
    ensure!(
        disturbed.is_err(),
        "a peer that was admitted in time was told {disturbed:?}"
    );
    ensure_eq!(
        admit(&mut host, &known).await?,
        peer,
        "the peer that was admitted all the time"
    );
    Ok(())
}

pub(super) async fn partial(world: Arc<World>) -> Outcome {
    const SIZE: usize = 60_000;
    const ROOM: usize = 20;
    const STRANGERS: usize = 60;
    let mut limits = tight(&world, |limits| limits.partial_bytes = SIZE * ROOM);
    // Who sends only a part is silent then.
    limits.ping_interval = LONG;
    let host = world.serve_with(limits.clone()).await?.echoing(&world);
    let script = recorded(&world, &host, async |caller| {
        let asked = caller.ask(numbered(1, SIZE)).await;
        asked.map(drop).expecting("a request through the proxy")
    });
    let [script, _] = script.await?;
    let mut begun = script.opening.concat();
    let said = script.said.concat();
    ensure!(said.len() >= SIZE, "the proxy has not heard a request");
    begun.extend_from_slice(&said[..said.len() - 100]);
    let place = Place::of(&host.bound.requests, world.backend().wire())?;
    let cut = Arc::new(AtomicUsize::new(0));
    for _ in 0..STRANGERS {
        let stream = Raw::connect(&place).await;
        let stream =
            stream.map_err(|error| Failure::new(format!("a raw socket of the suite: {error}")))?;
        let (mut from, mut to) = tokio::io::split(stream);
        let (begun, cut) = (begun.clone(), Arc::clone(&cut));
        world.spawn(async move {
            // It may hang up in the middle, which ends the reading too.
            let _ = to.write_all(&begun).await;
            let mut said = vec![0; 1024];
            while let Ok(1..) = from.read(&mut said).await {}
            cut.fetch_add(1, Ordering::Relaxed);
            drop(to);
        });
    }
    let held = || STRANGERS - cut.load(Ordering::Relaxed);
    let deadline = world.clock().after(PATIENCE);
    while held() > ROOM + 1 {
        ensure!(
            world.clock().now() < deadline,
            "{} peers that are not admitted have {SIZE} bytes of a request each under way, there is \
             room for {ROOM}",
            held()
        );
        world.clock().pause(PING / 10).await;
    }
    // Those that were cut have left room for what is small.
    let fresh = world.client_with(&host, limits).await?;
    let reply = fresh.ask("small").await;
    reply.expecting("a small request beside them")?;
    Ok(())
}
