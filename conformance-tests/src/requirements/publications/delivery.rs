//! That what is published arrives, once and in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Delivery, Lost};
use tokio_util::sync::CancellationToken;

use crate::failure::{ensure, ensure_eq};
use crate::kit::{
    Host, Listener, World, exact, join_all, number, numbered, payload, prefix, topic,
};
use crate::{Expecting, Failure, Outcome};

pub(super) async fn subscribed_means_subscribed(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    for round in 0..100 {
        let name = format!("round/{}", round % 10);
        let mut listener = caller.subscribe(&[exact(&name)?]).await?;
        host.publish(&topic(&name)?, numbered(round, 8)).await?;
        let (_, payload) = listener.message().await?;
        ensure_eq!(
            number(&payload),
            round,
            "the first publication of round {round}"
        );
    }
    for round in 0..20 {
        let caller = world.client(&host).await?;
        let mut listener = caller.subscribe(&[prefix("fresh")?]).await?;
        host.publish(&topic("fresh/start")?, numbered(round, 8))
            .await?;
        let (_, payload) = listener.message().await?;
        ensure_eq!(
            number(&payload),
            round,
            "the first publication to fresh client {round}"
        );
        caller.shut_down().await?;
    }
    Ok(())
}

pub(super) async fn order_and_no_duplicates(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 4000;
    let mut limits = world.limits();
    limits.subscriber_queue_messages = 10_000;
    limits.subscriber_queue_bytes = 256 * 1024 * 1024;
    let host = world.serve_with(limits.clone()).await?;
    let caller = world.client_with(&host, limits).await?;
    let mut listener = caller.subscribe(&[prefix("t")?]).await?;
    let publishing = async {
        let topics = [topic("t")?, topic("t/a")?, topic("t/b")?, topic("t/b/c")?];
        for n in 0..COUNT {
            // Sizes that differ, so that what is small cannot overtake what is large.
            let size = if n % 50 == 0 { 100_000 } else { 100 };
            // Two after each other on each, so that a swap of neighbours shows.
            let at = &topics[usize::from(n.to_le_bytes()[0] / 2 % 4)];
            host.publish(at, numbered(n, size)).await?;
        }
        Outcome::Ok(())
    };
    let reading = async {
        let mut last: HashMap<_, u64> = HashMap::new();
        for n in 0..COUNT {
            let (topic, payload) = listener.message().await?;
            let got = number(&payload);
            if let Some(before) = last.insert(topic.clone(), got) {
                ensure!(
                    got > before,
                    "{topic}: publication {got} came after {before} (the {n}th in all)"
                );
                let next = before + if before % 2 == 0 { 1 } else { 7 };
                ensure_eq!(got, next, "the next publication of {topic}");
            }
        }
        Outcome::Ok(())
    };
    let (published, read) = tokio::join!(publishing, reading);
    published.and(read)
}

pub(super) async fn fan_out(world: Arc<World>) -> Outcome {
    const SUBSCRIBERS: usize = 100;
    const COUNT: u64 = 50;
    let host = world.serve().await?;
    let (mut callers, mut listeners) = (Vec::new(), Vec::new());
    for _ in 0..SUBSCRIBERS / 4 {
        let caller = world.client(&host).await?;
        for _ in 0..4 {
            listeners.push(caller.subscribe(&[exact("all")?]).await?);
        }
        callers.push(caller);
    }
    let t = topic("all")?;
    for n in 0..COUNT {
        host.publish(&t, numbered(n, 500)).await?;
    }
    let read = async |mut listener: Listener| {
        for n in 0..COUNT {
            ensure_eq!(
                number(&listener.message().await?.1),
                n,
                "the next publication"
            );
        }
        Outcome::Ok(())
    };
    for (n, outcome) in join_all(listeners.into_iter().map(read))
        .await
        .into_iter()
        .enumerate()
    {
        outcome.map_err(|failure| Failure::new(format!("subscriber {n} of 100: {failure}")))?;
    }
    Ok(())
}

pub(super) async fn concurrent_publishers(world: Arc<World>) -> Outcome {
    const TASKS: u64 = 8;
    const EACH: u64 = 100;
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[prefix("t")?]).await?;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let publisher = Arc::clone(&host.publisher);
            world.spawn(async move {
                let t = topic(&format!("t/{task}"))?;
                for n in 0..EACH {
                    let taken = publisher.publish(&t, numbered(n, 300)).await;
                    taken.expecting("publishing beside others")?;
                }
                Outcome::Ok(())
            })
        })
        .collect();
    let mut next: HashMap<String, u64> = HashMap::new();
    for _ in 0..TASKS * EACH {
        let (topic, payload) = listener.message().await?;
        let expected = next.entry(topic.as_str().to_owned()).or_default();
        ensure_eq!(
            number(&payload),
            *expected,
            "the next publication of {topic}"
        );
        *expected += 1;
    }
    for task in tasks {
        task.await.expecting("a task of the suite")??;
    }
    Ok(())
}

pub(super) async fn nobody_listens(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    for n in 0..2000 {
        host.publish(&topic(&format!("t/{}", n % 100))?, payload(n, 1000))
            .await?;
    }
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[prefix("t")?]).await?;
    host.publish(&topic("t/1")?, "now").await?;
    ensure_eq!(
        listener.message().await?.1,
        Bytes::from("now"),
        "the first publication"
    );
    newcomers_beside_others(&world, host).await
}

/// Subscribers come and go beside one of the same client and topic while the topic is published at full rate. What each gets
/// first was published after it had asked.
async fn newcomers_beside_others(world: &Arc<World>, host: Host) -> Outcome {
    let caller = world.client(&host).await?;
    let t = topic("busy")?;
    let mut beside = caller.subscribe(&[exact("busy")?]).await?;
    let (published, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let publishing = world.spawn({
        let (published, stop) = (Arc::clone(&published), stop.clone());
        async move {
            let host = host;
            while !stop.is_cancelled() {
                let next = published.fetch_add(1, Ordering::SeqCst);
                host.publish(&t, numbered(next, 200)).await?;
                tokio::task::yield_now().await;
            }
            Outcome::Ok(host)
        }
    });
    for round in 0..50 {
        // It reads on, so that something is under way to this client all the time.
        for _ in 0..20 {
            beside.next().await?;
        }
        let before = published.load(Ordering::SeqCst);
        let mut newcomer = caller.subscribe(&[exact("busy")?]).await?;
        let first = loop {
            match newcomer.next().await? {
                Some(Delivery::Message { payload, .. }) => break number(&payload),
                // A carrier may be slower than the publisher: then it loses what was published since it asked, as others do.
                Some(Delivery::Lagged(Lost::Messages(lost))) => {
                    let since = published.load(Ordering::SeqCst) - before + 1;
                    ensure!(
                        lost <= since,
                        "round {round}: a new subscriber lost {lost} publications, {since} were published since it asked"
                    );
                }
                Some(Delivery::Lagged(_)) => {}
                other => {
                    return Err(Failure::new(format!(
                        "round {round}: a new subscriber got {other:?} first"
                    )));
                }
            }
        };
        // One publication may have taken its number, and be on its way to the connection.
        ensure!(
            first + 1 >= before,
            "round {round}: publication {first} came to a subscriber that had not asked when {before} were published"
        );
    }
    stop.cancel();
    drop(publishing.await.expecting("a task of the suite")??);
    Ok(())
}

pub(super) async fn requests_beside_publications(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 60;
    let mut limits = world.unhurried();
    limits.subscriber_queue_bytes = 256 * 1024 * 1024;
    let host = world.serve_with(limits.clone()).await?.echoing(&world);
    let caller = world.client_with(&host, limits).await?;
    let mut listener = caller.subscribe(&[exact("large")?]).await?;
    let publishing = async {
        let t = topic("large")?;
        for n in 0..COUNT {
            host.publish(&t, numbered(n, 500_000)).await?;
        }
        Outcome::Ok(())
    };
    let reading = async {
        for n in 0..COUNT {
            ensure_eq!(
                number(&listener.message().await?.1),
                n,
                "the next publication"
            );
        }
        Outcome::Ok(())
    };
    let asking = async {
        for n in 0..200 {
            let reply = caller
                .ask_within(numbered(n, 8), Duration::from_secs(10))
                .await;
            let reply = reply.expecting("a request beside large publications")?;
            ensure_eq!(number(&reply), n, "the reply");
        }
        Outcome::Ok(())
    };
    let (published, read, asked) = tokio::join!(publishing, reading, asking);
    published.and(read).and(asked)
}

pub(super) async fn a_thousand_subscribers(world: Arc<World>) -> Outcome {
    const CLIENTS: usize = 1000;
    const ROUNDS: u64 = 5;
    // A thousand at once on a small machine are slow, and not dead.
    let mut limits = world.unhurried();
    limits.connect_timeout = Duration::from_secs(20);
    limits.handshake_timeout = Duration::from_secs(20);
    let host = world.serve_with(limits.clone()).await?;
    let mut fleet = Vec::new();
    while fleet.len() < CLIENTS {
        let wave = (0..50).map(|_| async {
            let caller = world.client_with(&host, limits.clone()).await?;
            let listener = caller.subscribe(&[exact("job/all")?]).await?;
            Outcome::Ok((caller, listener))
        });
        for joined in join_all(wave).await {
            fleet.push(joined?);
        }
    }
    let t = topic("job/all")?;
    ensure_eq!(host.publisher.subscriptions(&t), CLIENTS, "subscriptions");
    for round in 0..ROUNDS {
        for n in 0..4 {
            host.publish(&t, numbered(round * 4 + n, 200)).await?;
        }
        for (index, (_, listener)) in fleet.iter_mut().enumerate() {
            for n in 0..4 {
                let (_, payload) = listener.message().await?;
                ensure_eq!(
                    number(&payload),
                    round * 4 + n,
                    "the next publication of client {index}"
                );
            }
        }
    }
    Ok(())
}

pub(super) async fn read_many(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 300;
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[prefix("t")?]).await?;
    for n in 0..COUNT {
        let at = if n % 3 == 0 { "t/a" } else { "t/b" };
        host.publish(&topic(at)?, numbered(n, 10)).await?;
    }
    // Order is promised within a topic.
    let (mut expected, mut read, mut batch) = ([0, 1], 0, Vec::new());
    while read < COUNT {
        // One by itself, then a batch of up to seven.
        if read.is_multiple_of(2) {
            batch.extend(listener.next().await?);
        } else {
            let most = 7;
            let taken = listener.batch(&mut batch, most).await?;
            ensure_eq!(taken, batch.len(), "the number that next_batch returned");
            ensure!(
                taken <= most,
                "next_batch took {taken}, at most {most} were asked for"
            );
        }
        for delivery in batch.drain(..) {
            let Delivery::Message { payload, .. } = delivery else {
                return Err(Failure::new(format!(
                    "expected a publication, next_batch yielded {delivery:?}"
                )));
            };
            let n = number(&payload);
            let row = &mut expected[usize::from(!n.is_multiple_of(3))];
            ensure_eq!(n, *row, "the next publication of its topic");
            // One in three goes to the one topic, the others to the other.
            *row += [3, 1, 2][(n % 3) as usize];
            read += 1;
        }
    }
    Ok(())
}
