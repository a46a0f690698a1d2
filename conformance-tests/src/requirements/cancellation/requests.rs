//! Requests that are dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::ErrorKind;
use tokio::sync::mpsc;

use crate::failure::{ensure, ensure_eq, is_error};
use crate::kit::{TEST_TIMEOUT, World, echo, join_all, number, numbered, poll_at_most};
use crate::{Expecting, Failure, Outcome};

/// How long a future may sit at one await point before it is dropped there.
pub(super) const SITTING: Duration = Duration::from_millis(50);

/// One more than the await points that anything is expected to have.
pub(super) const POLLS: usize = 12;

pub(super) async fn dropped_requests(world: Arc<World>) -> Outcome {
    const PERMITS: u64 = 4;
    let mut limits = world.limits();
    limits.requests_in_flight = 4;
    let (count, mut counted) = mpsc::channel(10_000);
    let host = world.serve().await?.answering(&world, move |request| {
        // There is room for all of them.
        let _ = count.try_send(number(&request.payload));
        echo(request);
    });
    let caller = world.client_with(&host, limits).await?;
    let mut made = 0;
    for times in 1..=POLLS {
        for _ in 0..20 {
            let size = if made % 3 == 0 { 100_000 } else { 20 };
            if let Some(reply) =
                poll_at_most(times, SITTING, caller.ask(numbered(made, size))).await
            {
                let reply = reply.expecting("a request that was quicker than its drop")?;
                ensure_eq!(number(&reply), made, "its reply");
            }
            made += 1;
        }
        // As many at once as there are permits: one that leaked would make this wait for ever.
        for reply in join_all((0..PERMITS).map(|n| caller.ask(numbered(made + n, 20)))).await {
            reply.expecting("a request after others were dropped")?;
        }
        made += PERMITS;
    }
    let mut seen: HashMap<u64, u32> = HashMap::new();
    while let Ok(number) = counted.try_recv() {
        *seen.entry(number).or_default() += 1;
    }
    for (number, times) in seen {
        ensure_eq!(times, 1, "executions of request {number}");
    }
    Ok(())
}

pub(super) async fn dropped_in_the_queue(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let asking = world.spawn({
        let caller = caller.clone();
        async move { caller.ask("in flight").await }
    });
    let held = host.requests.next().await?;
    host.kill().await?;
    let lost = asking.await.expecting("a task of the suite")?;
    is_error(
        &lost,
        ErrorKind::ConnectionLost,
        "the request in flight when the server went",
    )?;
    drop(held);
    // The link is down now, and known to be.
    for n in 0..50 {
        let times = 1 + usize::from(n % 4 == 0);
        let early = poll_at_most(times, SITTING, caller.ask(numbered(n, 16))).await;
        ensure!(
            early.is_none(),
            "a request without a link came to {early:?}"
        );
    }
    let mut host = world.serve_again(&host.bound).await?;
    let (reply, arrived) = tokio::join!(caller.ask(numbered(100, 16)), async {
        let request = host.requests.next().await?;
        request.reply.send(request.payload.clone())?;
        Outcome::Ok(number(&request.payload))
    });
    ensure_eq!(
        arrived?,
        100,
        "the first request to arrive after fifty were dropped"
    );
    reply.expecting("the request that was not dropped")?;
    Ok(())
}

pub(super) async fn replies_to_dropped_requests(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    for round in 0..20 {
        let dropped = world.spawn({
            let caller = caller.clone();
            async move { caller.ask("dropped").await }
        });
        let late = host.requests.next().await?;
        dropped.abort();
        let _ = dropped.await;
        let (reply, answered) = tokio::join!(caller.ask(numbered(round, 16)), async {
            let request = host.requests.next().await?;
            late.reply.send("for nobody".into())?;
            request.reply.send(request.payload.clone())?;
            Outcome::Ok(())
        });
        answered?;
        let reply = reply.expecting("a request after one that was dropped")?;
        ensure_eq!(number(&reply), round, "its reply");
    }
    Ok(())
}

pub(super) async fn dropped_incoming(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 200;
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let asking = join_all((0..COUNT).map(|n| caller.ask(numbered(n, 100))));
    let answering = async {
        let mut next = 0;
        let deadline = world.clock().after(TEST_TIMEOUT);
        while next < COUNT {
            ensure!(
                world.clock().now() < deadline,
                "request {next} of {COUNT} did not arrive"
            );
            let stream = host.requests.stream()?;
            match poll_at_most(1, SITTING, stream.next()).await {
                None => world.clock().pause(Duration::from_millis(1)).await,
                Some(None) => return Err(Failure::new("the stream of requests ended")),
                Some(Some(request)) => {
                    ensure_eq!(number(&request.payload), next, "the next request");
                    next += 1;
                    request.reply.send(request.payload.clone())?;
                }
            }
        }
        Ok(())
    };
    let (replies, answered) = tokio::join!(asking, answering);
    answered?;
    for reply in replies {
        reply.expecting("a request")?;
    }
    Ok(())
}
