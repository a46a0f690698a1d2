//! Which reply belongs to which request.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::ErrorKind;

use crate::failure::{ensure, ensure_eq, is_error};
use crate::kit::{World, echo, join_all, number, numbered, payload};
use crate::{Expecting, Failure, Outcome};

pub(super) async fn own_reply(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 256;
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let asking = join_all((0..COUNT).map(|n| caller.ask(payload(n, 100))));
    let answering = async {
        // Nothing is answered before all have arrived, and the last is answered first.
        let mut held = Vec::new();
        for _ in 0..COUNT {
            held.push(host.requests.next().await?);
        }
        for request in held.into_iter().rev() {
            let twice = [&request.payload[..], &request.payload[..]].concat();
            request.reply.send(twice.into())?;
        }
        Outcome::Ok(())
    };
    let (replies, answered) = tokio::join!(asking, answering);
    answered?;
    let twice = |n| [&payload(n, 100)[..], &payload(n, 100)[..]].concat();
    // First those that went to others: who was to get them may have timed out.
    for (n, reply) in (0..COUNT).zip(&replies) {
        let Ok(reply) = reply else { continue };
        let whose = (0..COUNT).find(|other| *reply == twice(*other));
        ensure!(
            whose == Some(n),
            "request {n} got a reply that is not its own, but that of request {whose:?}"
        );
    }
    for (n, reply) in (0..COUNT).zip(replies) {
        reply.expecting(format!("request {n} of {COUNT} at once"))?;
    }
    Ok(())
}

pub(super) async fn late_reply_discarded(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    for round in 0..6 {
        // Time for it to arrive.
        let first = caller.ask_within(numbered(2 * round, 8), Duration::from_millis(600));
        let (first, late) = tokio::join!(first, host.requests.next());
        let late = late?;
        is_error(&first, ErrorKind::TimedOut, "the first request")?;
        let second = caller.ask(numbered(2 * round + 1, 8));
        let answering = async {
            // In half of the rounds the late reply comes while nothing else is on its way back.
            if round % 2 == 0 {
                late.reply.send("too late".into())?;
                let request = host.requests.next().await?;
                request.reply.send(request.payload.clone())?;
            } else {
                let request = host.requests.next().await?;
                late.reply.send("too late".into())?;
                request.reply.send(request.payload.clone())?;
            }
            Outcome::Ok(())
        };
        let (second, answered) = tokio::join!(second, answering);
        answered?;
        let second = second.expecting("the request after one that timed out")?;
        ensure_eq!(
            number(&second),
            2 * round + 1,
            "the reply of the second request"
        );
    }
    Ok(())
}

pub(super) async fn numbers_do_not_return(world: Arc<World>) -> Outcome {
    /// As many numbers as 16 bits have.
    const NUMBERS: u64 = 1 << 16;
    /// Requests that are under way at once.
    const AT_ONCE: u64 = 512;
    let limits = world.unhurried();
    let mut host = world.serve_with(limits.clone()).await?;
    let caller = world.client_with(&host, limits).await?;
    // Time for it to arrive.
    let first = caller.ask_within(numbered(0, 16), Duration::from_secs(1));
    let (first, late) = tokio::join!(first, host.requests.next());
    is_error(&first, ErrorKind::TimedOut, "the first request")?;
    let mut late = Some(late?);
    let mut numbers = 1..1 + AT_ONCE / 2;
    loop {
        // Half of the last ones come before the same number, and half behind it.
        let is_last = numbers.contains(&NUMBERS);
        let answering = async {
            let mut held = Vec::new();
            for _ in numbers.clone() {
                held.push(host.requests.next().await?);
            }
            if let Some(late) = late.take_if(|_| is_last) {
                echo(late);
            }
            held.into_iter().for_each(echo);
            Outcome::Ok(())
        };
        let asking = numbers.clone().map(|n| caller.ask(numbered(n, 16)));
        let (replies, answered) = tokio::join!(join_all(asking), answering);
        answered?;
        for (n, reply) in numbers.clone().zip(replies) {
            let reply = reply.expecting(format!("request {n} behind one that timed out"))?;
            ensure_eq!(number(&reply), n, "the reply of request {n}");
        }
        if is_last {
            return Ok(());
        }
        numbers = numbers.end..numbers.end + AT_ONCE;
    }
}

pub(super) async fn clients_do_not_mix(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let mut peers = HashSet::new();
    let mut callers = Vec::new();
    for n in 0..8 {
        let caller = world.client(&host).await?;
        let mut peer = None;
        for _ in 0..3 {
            let (reply, request) = tokio::join!(caller.ask(numbered(n, 8)), async {
                let request = host.requests.next().await?;
                let peer = request.peer;
                request.reply.send(request.payload.clone())?;
                Outcome::Ok(peer)
            });
            ensure_eq!(number(&reply?), n, "the reply of client {n}");
            let seen = request?;
            ensure!(
                peer.is_none_or(|before| before == seen),
                "client {n} was {peer:?} and is {seen:?} now"
            );
            peer = Some(seen);
        }
        ensure!(
            peers.insert(peer.map(|peer| peer.connection)),
            "client {n} has the number of another"
        );
        callers.push(caller);
    }
    let host = host.echoing(&world);
    let all = join_all(callers.iter().zip(0..).map(|(caller, n)| async move {
        for round in 0..50 {
            let asked = payload(n * 1000 + round, 64);
            let reply = caller.ask(asked.clone()).await;
            if reply.as_ref().is_ok_and(|reply| *reply != asked) {
                return Ok(Some(n));
            }
            reply.expecting("a request beside those of other clients")?;
        }
        Outcome::Ok(None)
    }));
    let outcomes = all.await;
    // First those that got another's reply: the other may have timed out for want of it.
    if let Some(n) = outcomes.iter().flatten().flatten().next() {
        return Err(Failure::new(format!(
            "client {n} got a reply that is not its own"
        )));
    }
    for outcome in outcomes {
        outcome?;
    }
    drop(host);
    Ok(())
}

pub(super) async fn order_of_sending(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 300;
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    // Sizes that differ, so that what is small cannot overtake what is large.
    let asking = join_all((0..COUNT).map(|n| {
        let size = if n % 7 == 0 { 70_000 } else { 10 };
        caller.ask(numbered(n, size))
    }));
    let answering = async {
        for expected in 0..COUNT {
            let request = host.requests.next().await?;
            ensure_eq!(number(&request.payload), expected, "the next request");
            request.reply.send(Bytes::new())?;
        }
        Outcome::Ok(())
    };
    let (replies, answered) = tokio::join!(asking, answering);
    answered?;
    for reply in replies {
        reply.expecting("a request of an ordered row")?;
    }
    Ok(())
}

pub(super) async fn burst(world: Arc<World>) -> Outcome {
    const TASKS: u64 = 20;
    const EACH: u64 = 250;
    let (count, mut counted) = tokio::sync::mpsc::channel(10_000);
    let host = world.serve().await?.answering(&world, move |request| {
        // There is room for all of them.
        let _ = count.try_send(number(&request.payload));
        echo(request);
    });
    let caller = world.client(&host).await?;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let caller = caller.clone();
            world.spawn(async move {
                let all = (0..EACH).map(|n| caller.ask(numbered(task * EACH + n, 40)));
                for (n, reply) in join_all(all).await.into_iter().enumerate() {
                    let reply = reply.expecting("a request of a burst")?;
                    ensure_eq!(number(&reply), task * EACH + n as u64, "the reply");
                }
                Outcome::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expecting("a task of the suite")??;
    }
    let mut seen = HashSet::new();
    while let Ok(number) = counted.try_recv() {
        ensure!(seen.insert(number), "request {number} arrived twice");
    }
    ensure_eq!(seen.len() as u64, TASKS * EACH, "requests that arrived");
    Ok(())
}

pub(super) async fn take_many(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 300;
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let asking = join_all((0..COUNT).map(|n| caller.ask(numbered(n, 10))));
    let answering = async {
        let (mut expected, mut batch) = (0, Vec::new());
        while expected < COUNT {
            // One by itself, then a batch of up to seven.
            if expected.is_multiple_of(2) {
                batch.push(host.requests.next().await?);
            } else {
                let most = 7;
                let taken = host.requests.batch(&mut batch, most).await?;
                ensure_eq!(taken, batch.len(), "the number that next_batch returned");
                ensure!(
                    taken <= most,
                    "next_batch took {taken}, at most {most} were asked for"
                );
            }
            for request in batch.drain(..) {
                ensure_eq!(number(&request.payload), expected, "the next request");
                expected += 1;
                echo(request);
            }
        }
        Outcome::Ok(())
    };
    let (replies, answered) = tokio::join!(asking, answering);
    answered?;
    for (n, reply) in (0..).zip(replies) {
        let reply = reply.expecting("a request of a row that is taken at once")?;
        ensure_eq!(number(&reply), n, "the reply");
    }
    Ok(())
}
