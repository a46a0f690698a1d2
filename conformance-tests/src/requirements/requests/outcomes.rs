//! How a request ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::ErrorKind;

use crate::failure::{ensure, ensure_eq, is_error, not_later};
use crate::kit::{
    Caller, DEADLINE_SLACK, Host, Inbox, TEST_TIMEOUT, World, echo, exact, join_all, number,
    numbered, topic,
};
use crate::{Expecting, Failure, Outcome};

pub(super) async fn slow_one_delays_none(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let slow = world.spawn({
        let caller = caller.clone();
        async move { caller.ask("slow").await }
    });
    let held = host.requests.next().await?;
    let host = host.echoing(&world);
    for n in 0..50 {
        let reply = caller.ask(numbered(n, 8)).await;
        ensure_eq!(
            number(&reply.expecting("a request beside one that is not answered")?),
            n,
            "the reply"
        );
    }
    held.reply.send("at last".into())?;
    let slow = slow.await.expecting("a task of the suite")?;
    ensure_eq!(
        slow.expecting("the slow request")?,
        Bytes::from("at last"),
        "its reply"
    );
    drop(host);
    Ok(())
}

pub(super) async fn deadline(world: Arc<World>) -> Outcome {
    const LIMIT: Duration = Duration::from_secs(1);
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let clock = world.clock();
    for _ in 0..3 {
        let promised = clock.after(LIMIT);
        let asking = caller.client.request("held".into(), promised);
        let (outcome, held) = tokio::join!(asking, host.requests.next());
        ensure!(clock.now() >= promised, "it ended before its deadline");
        not_later(clock, promised + DEADLINE_SLACK, "a request's deadline")?;
        is_error(
            &outcome,
            ErrorKind::TimedOut,
            "a request that is not answered",
        )?;
        drop(held?);
    }
    each_at_its_own(&world, &mut host, &caller).await
}

/// Several requests are under way at once, and the deadline of none is that of one that was made before or after it.
async fn each_at_its_own(world: &Arc<World>, host: &mut Host, caller: &Caller) -> Outcome {
    const LIMITS: [u64; 5] = [1900, 1300, 2200, 1600, 1450];
    let clock = world.clock();
    // It is made first, and outlasts the others.
    let long = world.spawn({
        let caller = caller.clone();
        async move { caller.ask("long").await }
    });
    let long_held = host.requests.next().await?;
    let asking = LIMITS.map(|limit| async move {
        let promised = clock.after(Duration::from_millis(limit));
        let outcome = caller.client.request("held".into(), promised).await;
        let what = format!("a request with {limit} ms beside others with {LIMITS:?}");
        ensure!(
            clock.now() >= promised,
            "{what} ended before its deadline: {outcome:?}"
        );
        not_later(clock, promised + DEADLINE_SLACK, &what)?;
        is_error(&outcome, ErrorKind::TimedOut, &what)
    });
    let holding = async {
        let mut held = Vec::new();
        for _ in LIMITS {
            held.push(host.requests.next().await?);
        }
        Outcome::Ok(held)
    };
    let (outcomes, held) = tokio::join!(join_all(asking), holding);
    for outcome in outcomes {
        outcome?;
    }
    drop(held?);
    ensure!(
        !long.is_finished(),
        "a request ended with the deadlines of others that were made after it"
    );
    long_held.reply.send("at last".into())?;
    let reply = long.await.expecting("a task of the suite")?;
    ensure_eq!(
        reply.expecting("the request with the longest deadline")?,
        Bytes::from("at last"),
        "its reply"
    );
    Ok(())
}

pub(super) async fn dropped_reply_is_told(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.answering(&world, drop);
    let caller = world.client(&host).await?;
    for _ in 0..10 {
        let started = world.clock().now();
        let outcome = caller.ask("drop me").await;
        is_error(
            &outcome,
            ErrorKind::NoReply,
            "a request whose reply was dropped",
        )?;
        not_later(
            world.clock(),
            started + TEST_TIMEOUT / 5,
            "the news of a dropped reply",
        )?;
    }
    Ok(())
}

pub(super) async fn panicking_handler(world: Arc<World>) -> Outcome {
    let tasks = Arc::clone(&world);
    let host = world.serve().await?.answering(&world, move |request| {
        tasks.spawn(async move {
            if request.payload == "panic" {
                // Without the hook's message, which would only puzzle whoever reads the output.
                std::panic::resume_unwind(Box::new("a handler's panic, on purpose"));
            }
            echo(request);
        });
    });
    let caller = world.client(&host).await?;
    for n in 0..10 {
        let outcome = caller.ask("panic").await;
        is_error(
            &outcome,
            ErrorKind::NoReply,
            "a request whose handler panicked",
        )?;
        let reply = caller.ask(numbered(n, 8)).await;
        ensure_eq!(
            number(&reply.expecting("a request after a panic")?),
            n,
            "the reply after a panic"
        );
    }
    Ok(())
}

pub(super) async fn failures_cost_nothing(world: Arc<World>) -> Outcome {
    let mut limits = world.limits();
    limits.requests_in_flight = 50;
    let host = world.serve().await?;
    // Odd numbers are kept unanswered, even ones dropped.
    let (keep, mut kept) = tokio::sync::mpsc::channel(1000);
    let host = host.answering(&world, move |request| match number(&request.payload) {
        u64::MAX => echo(request),
        n if n % 2 == 1 => drop(keep.try_send(request)),
        _ => drop(request),
    });
    let caller = world.client_with(&host, limits).await?;
    for round in 0..4 {
        // Time for all of them to arrive.
        let all = (0..50)
            .map(|n| caller.ask_within(numbered(round * 50 + n, 8), Duration::from_millis(1500)));
        for (n, outcome) in join_all(all).await.into_iter().enumerate() {
            let kind = if n % 2 == 1 {
                ErrorKind::TimedOut
            } else {
                ErrorKind::NoReply
            };
            is_error(&outcome, kind, format!("request {n} of round {round}"))?;
        }
    }
    for reply in join_all((0..50).map(|_| caller.ask("ok"))).await {
        ensure_eq!(
            reply.expecting("a request after 200 failures")?,
            Bytes::from("ok"),
            "its reply"
        );
    }
    kept.close();
    Ok(())
}

/// How many requests are made with a deadline that has passed.
const PASSED_DEADLINES: u32 = 200;

pub(super) async fn passed_deadline(world: Arc<World>) -> Outcome {
    let host = world.serve().await?.echoing(&world);
    let caller = world.client(&host).await?;
    let clock = world.clock();
    let past = clock.now();
    clock.pause(Duration::from_millis(5)).await;
    let started = clock.now();
    // Many, because a reply that comes before a timer is looked at is a matter of luck.
    for number in 1..=PASSED_DEADLINES {
        let outcome = caller.client.request("too late".into(), past).await;
        match outcome.as_ref().map_err(|error| error.kind()) {
            Err(ErrorKind::Unreachable | ErrorKind::TimedOut) => {}
            other => {
                return Err(Failure::new(format!(
                    "request {number} of {PASSED_DEADLINES}, all with a deadline that has passed, came to {other:?}"
                )));
            }
        }
    }
    not_later(
        clock,
        started + TEST_TIMEOUT / 5,
        "a request whose deadline has passed",
    )?;
    caller.ask("next").await.expecting("the next request")?;
    Ok(())
}

pub(super) async fn unread_requests(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    host.requests = Inbox::default();
    let outcome = caller
        .ask_within("nobody there", Duration::from_secs(1))
        .await;
    match outcome.as_ref().map_err(|error| error.kind()) {
        Err(ErrorKind::NoReply | ErrorKind::TimedOut | ErrorKind::Unreachable) => {}
        other => {
            return Err(Failure::new(format!(
                "a request that nobody reads came to {other:?}"
            )));
        }
    }
    host.publish(&topic("t")?, "still here").await?;
    ensure_eq!(
        listener.message().await?.1,
        Bytes::from("still here"),
        "the publication"
    );
    Ok(())
}

pub(super) async fn no_ping(world: Arc<World>) -> Outcome {
    const BURST: u64 = 20;
    let mut limits = world.limits();
    limits.ping_interval = Duration::from_secs(60);
    let host = world.serve_with(limits.clone()).await?.echoing(&world);
    let caller = world.client_with(&host, limits).await?;
    for round in 0..300 {
        let count = if round % 10 == 9 { BURST } else { 1 };
        let all = (0..count).map(|n| caller.ask(numbered(n, 100)));
        for (n, reply) in (0..).zip(join_all(all).await) {
            let reply = reply.expecting(format!("a request of round {round}"))?;
            ensure_eq!(number(&reply), n, "the reply");
        }
    }
    Ok(())
}
