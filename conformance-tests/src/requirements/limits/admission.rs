//! Bounds of those that are not admitted yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use saline_protocol::transport::{AdmissionLimits, Delivery, ErrorKind, Limits, Lost, Metric};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::failure::{ensure, ensure_eq, not_later};
use crate::kit::{
    Caller, Host, PING, Proxy, Raw, TEST_TIMEOUT, World, admit, exact, number, numbered, recorded,
    topic,
};
use crate::{Expecting, Failure, Outcome};

/// Longer than any run.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// The suite's limits, with those before admission that `change` makes.
pub(super) fn tight(world: &World, change: impl FnOnce(&mut AdmissionLimits)) -> Limits {
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

/// Reads until the other end has ended the connection.
async fn ended(stranger: &mut Raw) {
    let mut said = vec![0; 1024];
    while let Ok(1..) = stranger.read(&mut said).await {}
}

pub(super) async fn messages(world: Arc<World>) -> Outcome {
    const MAX_MESSAGE: usize = 5000;
    // What a client says that need not wait is what a stranger may try.
    let anyone = world.serve_with(world.unhurried()).await?.echoing(&world);
    let mut limits = tight(&world, |limits| limits.max_message = MAX_MESSAGE);
    // Nobody is cut for silence.
    limits.ping_interval = LONG;
    let mut host = world.serve_with(limits.clone()).await?;
    let place = world.place(&host.bound.requests)?;
    let known = world.client_with(&host, limits).await?;
    let peer = admit(&mut host, &known).await?;
    let sizes = [MAX_MESSAGE, MAX_MESSAGE + 1, 100_000, 10_000_000];
    for (n, size) in (10..).zip(sizes) {
        let script = recorded(&world, &anyone, async |caller| {
            let asked = caller.ask(numbered(n, size)).await;
            asked.map(drop).expecting("a request through the proxy")
        });
        let [script, _] = script.await?;
        let stranger = Raw::connect(&place).await;
        let mut stranger = stranger
            .map_err(|error| Failure::new(format!("a raw socket of the suite: {error}")))?;
        // What came together with what breaks a limit may go with its connection.
        let opened = stranger.write_all(&script.opening.concat()).await;
        opened.map_err(|error| Failure::new(format!("the opening of a stranger: {error}")))?;
        let opening = tokio::select! {
            request = host.requests.next() => request?,
            // What was said on another connection means nothing on this one, as with TLS.
            () = ended(&mut stranger) => return Ok(()),
        };
        opening.reply.send("here".into())?;
        // It may be cut in the middle.
        let _ = stranger.write_all(&script.said.concat()).await;
        if size <= MAX_MESSAGE {
            let request = host.requests.next().await?;
            ensure_eq!(number(&request.payload), n, "the request of a stranger");
            continue;
        }
        let clock = world.clock();
        let end = clock.deadline(clock.after(TEST_TIMEOUT), ended(&mut stranger));
        end.await.expecting(format!(
            "the end of a peer that is not admitted and sends {size} bytes"
        ))?;
        // Whatever was handed out before would be in the way.
        passes(&mut host, &known, 10 * n, size).await?;
    }
    world
        .eventually("each is counted as refused", || {
            host.counters.get(Metric::PeersRefused) >= 3
        })
        .await?;
    ensure_eq!(
        host.counters.get(Metric::PeersRefused),
        3,
        "peers that were counted as refused"
    );
    ensure_eq!(
        admit(&mut host, &known).await?,
        peer,
        "the peer that was admitted all the time"
    );
    Ok(())
}

pub(super) async fn waiting(world: Arc<World>) -> Outcome {
    const MAX_MESSAGE: usize = 5000;
    let mut limits = tight(&world, |limits| limits.max_message = MAX_MESSAGE);
    // No ping tells the client of its admission.
    limits.ping_interval = LONG;
    let mut host = world.serve_with(limits.clone()).await?;
    let caller = world.client_with(&host, limits).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    for round in 0..3 {
        let (late, large, small) = (3 * round, 3 * round + 1, 3 * round + 2);
        let alone = caller
            .ask_within(numbered(late, MAX_MESSAGE + 1), PING)
            .await;
        let alone = alone.map_err(|error| error.kind());
        ensure_eq!(alone, Err(ErrorKind::Unreachable), "what is not admitted");
        let (first, second, handled) = tokio::join!(
            caller.ask(numbered(large, 100_000)),
            caller.ask(numbered(small, MAX_MESSAGE)),
            async {
                let request = host.requests.next().await?;
                ensure_eq!(
                    number(&request.payload),
                    small,
                    "the first request of a peer that is not admitted"
                );
                host.control.admitted(request.peer);
                let peer = request.peer;
                request.reply.send("small".into())?;
                let request = host.requests.next().await?;
                ensure_eq!(
                    (number(&request.payload), request.payload.len()),
                    (large, 100_000),
                    "the request that waited"
                );
                request.reply.send("large".into())?;
                Outcome::Ok(peer)
            }
        );
        let peer = handled?;
        ensure_eq!(second.expecting("a small request")?, "small", "its reply");
        ensure_eq!(first.expecting("a large request")?, "large", "its reply");
        ensure_eq!(
            host.counters.get(Metric::PeersRefused),
            0,
            "peers that were counted as refused"
        );
        // Not even for a moment.
        host.control.disconnect(peer);
        listener.link(&Delivery::Disconnected).await?;
        listener.link(&Delivery::Connected).await?;
    }
    Ok(())
}

pub(super) async fn publications(world: Arc<World>) -> Outcome {
    // More than a system keeps of one connection, in the buffers of both of its ends and the proxy's.
    const SIZE: usize = 64 * 1024;
    const COUNT: u64 = 768;
    // So that what it has taken keeps the proxy busy while all is published.
    const PACE: usize = 128 * 1024;
    // A busy machine takes its time for all that.
    let mut limits = tight(&world, |limits| limits.time = 10 * LONG);
    // All of it waits for whoever is admitted, and nobody is cut for silence.
    limits.subscriber_queue_messages = usize::MAX;
    limits.subscriber_queue_bytes = usize::MAX;
    limits.ping_interval = LONG;
    let mut host = world.serve_with(limits.clone()).await?;
    let proxy = Proxy::start(&world, &host.bound).await?;
    let (t, filters) = (topic("t")?, [exact("t")?]);
    for is_admitted in [true, false] {
        let caller = world.try_client(&proxy.at, limits.clone()).await;
        let caller = caller.expecting("connecting through the proxy")?;
        if is_admitted {
            admit(&mut host, &caller).await?;
        }
        let mut listener = caller.subscribe(&filters).await?;
        proxy.throttle(PACE);
        for n in 0..COUNT {
            host.publish(&t, numbered(n, SIZE)).await?;
        }
        proxy.throttle(0);
        let (mut got, mut lost) = (0, 0);
        while got + lost < COUNT {
            match listener.next().await? {
                Some(Delivery::Message { .. }) => got += 1,
                Some(Delivery::Lagged(Lost::Messages(count))) => lost += count,
                Some(Delivery::Lagged(_)) => lost = COUNT - got,
                other => return Err(Failure::new(format!("the subscriber was told {other:?}"))),
            }
        }
        match is_admitted {
            true => ensure_eq!(lost, 0, "publications that an admitted subscriber lost"),
            false => ensure!(lost > 0, "nothing was lost to one that is not admitted"),
        }
        caller.shut_down().await?;
    }
    Ok(())
}

pub(super) async fn time(world: Arc<World>) -> Outcome {
    let time = Duration::from_secs(3);
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
    // The room of the strangers that have gone is free again, each time.
    for round in 0..3 {
        let gone = fill(&world, &host, &begun, (STRANGERS, ROOM)).await?;
        // Those that were cut have left room for what is small.
        let fresh = world.client_with(&host, limits.clone()).await?;
        let reply = fresh.ask("small").await;
        reply.expecting("a small request beside them")?;
        drop(gone);
        // A peer without room is cut, so each try is one of its own.
        let deadline = world.clock().after(TEST_TIMEOUT);
        loop {
            let fresh = world.client_with(&host, limits.clone()).await?;
            match fresh.ask(numbered(1, SIZE)).await {
                Ok(_) => break,
                Err(error) => ensure!(
                    world.clock().now() < deadline,
                    "round {round}: no request of {SIZE} bytes passes after {STRANGERS} strangers have gone: {error}"
                ),
            }
            world.clock().pause(PING / 10).await;
        }
    }
    Ok(())
}

/// Has strangers say what is begun, and waits until no more of them are left than there is room for. Dropping what is returned
/// ends these too.
async fn fill(
    world: &World,
    host: &Host,
    begun: &[u8],
    (strangers, room): (usize, usize),
) -> Outcome<DropGuard> {
    let place = world.place(&host.bound.requests)?;
    let cut = Arc::new(AtomicUsize::new(0));
    let gone = CancellationToken::new();
    for _ in 0..strangers {
        let stream = Raw::connect(&place).await;
        let stream =
            stream.map_err(|error| Failure::new(format!("a raw socket of the suite: {error}")))?;
        let (mut from, mut to) = tokio::io::split(stream);
        let (begun, cut, gone) = (begun.to_vec(), Arc::clone(&cut), gone.clone());
        let clock = world.clock();
        world.spawn(async move {
            let talk = async {
                // It may hang up in the middle, which ends the reading too.
                let _ = to.write_all(&begun).await;
                let mut said = vec![0; 1024];
                while let Ok(1..) = from.read(&mut said).await {}
                cut.fetch_add(1, Ordering::Relaxed);
            };
            tokio::select! {
                () = gone.cancelled() => {}
                () = talk => {}
            }
            // So that a server hears of it whose connections end by what is said on them, as over UDP.
            let _ = clock.deadline(clock.after(PING), to.shutdown()).await;
        });
    }
    let held = || strangers - cut.load(Ordering::Relaxed);
    let deadline = world.clock().after(TEST_TIMEOUT);
    while held() > room + 1 {
        ensure!(
            world.clock().now() < deadline,
            "{} peers that are not admitted have a large part of a request each under way, there is room for {room}",
            held()
        );
        world.clock().pause(PING / 10).await;
    }
    Ok(gone.drop_guard())
}
