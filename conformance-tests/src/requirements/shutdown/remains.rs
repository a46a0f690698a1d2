//! What is left afterwards: nothing.

use std::sync::Arc;

use crate::failure::{ensure, ensure_eq};
use crate::kit::{Host, TEST_TIMEOUT, World, alive_tasks, echo, exact, numbered, topic};
use crate::{Expecting, Outcome};

pub(super) async fn twice(world: Arc<World>) -> Outcome {
    for _ in 0..3 {
        let host = world.serve().await?.echoing(&world);
        let caller = world.client(&host).await?;
        caller.ask("up").await.expecting("a request")?;
        let (first, second) = tokio::join!(caller.shut_down(), caller.shut_down());
        first.and(second)?;
        caller.shut_down().await?;
        let (first, second) =
            tokio::join!(host.shut_down(TEST_TIMEOUT), host.shut_down(TEST_TIMEOUT));
        first?.expecting("the first shutdown")?;
        second?.expecting("the shutdown at the same time")?;
        host.shut_down(TEST_TIMEOUT)
            .await?
            .expecting("the shutdown after it")?;
    }
    Ok(())
}

pub(super) async fn no_task_is_left(world: Arc<World>) -> Outcome {
    // Of the whole runtime, whoever owns them.
    let before = alive_tasks();
    for busy in [false, true] {
        let mut host = world.serve().await?;
        let mut callers = Vec::new();
        let mut held = Vec::new();
        let mut listeners = Vec::new();
        for n in 0..5 {
            let caller = world.client(&host).await?;
            listeners.push(caller.subscribe(&[exact("t")?]).await?);
            if busy {
                let asking = caller.clone();
                // Closed or lost, as the end comes.
                world.spawn(async move { asking.ask(numbered(n, 16)).await.map(drop) });
                held.push(host.requests.next().await?);
                host.publish(&topic("t")?, "unread").await?;
            }
            callers.push(caller);
        }
        let last = callers.pop();
        for caller in callers {
            caller.shut_down().await?;
            ensure!(
                caller.context.tracker.is_empty(),
                "a client has tasks left (busy: {busy})"
            );
        }
        host.kill().await?;
        ensure!(
            host.context.tracker.is_empty(),
            "the server has tasks left (busy: {busy})"
        );
        if let Some(caller) = last {
            caller.shut_down().await?;
            ensure!(
                caller.context.tracker.is_empty(),
                "a client that was shut down after its server has tasks left (busy: {busy})"
            );
        }
    }
    // The suite's own have their answers, and end.
    let ended = || alive_tasks() <= before;
    world
        .eventually("no task runs that no tracker knows", ended)
        .await
}

pub(super) async fn served_again_at_once(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?.echoing(&world);
    let caller = world.client(&host).await?;
    let _listener = caller.subscribe(&[exact("t")?]).await?;
    for round in 0..20 {
        let fresh = world.client(&host).await?;
        fresh
            .ask(numbered(round, 16))
            .await
            .expecting("a request")?;
        host.shut_down(TEST_TIMEOUT)
            .await?
            .expecting("shutting down")?;
        host = world.serve_again(&host.bound).await?.echoing(&world);
    }
    Ok(())
}

pub(super) async fn cancelled_context(world: Arc<World>) -> Outcome {
    let mut host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let asking = world.spawn({
        let caller = caller.clone();
        async move { caller.ask("in flight").await }
    });
    let held = host.requests.next().await?;
    caller.context.cancel.cancel();
    let outcome = world
        .clock()
        .deadline(world.clock().after(TEST_TIMEOUT / 2), asking)
        .await;
    let outcome = outcome
        .expecting("the end of a request whose client's context was cancelled")?
        .expecting("a task of the suite")?;
    ensure!(
        outcome.is_err(),
        "a request whose client's context was cancelled was answered"
    );
    ensure_eq!(listener.next().await?, None, "what the subscriber yielded");
    world
        .eventually("the client's tasks are gone", || {
            caller.context.tracker.is_empty()
        })
        .await?;
    drop(held);
    host.context.cancel.cancel();
    ensure!(
        host.requests.within(TEST_TIMEOUT).await?.is_none(),
        "a request came from a server whose context was cancelled"
    );
    world
        .eventually("the server's tasks are gone", || {
            host.context.tracker.is_empty()
        })
        .await
}

pub(super) async fn dropped_handles(world: Arc<World>) -> Outcome {
    let host = world.serve().await?;
    let caller = world.client(&host).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let context = caller.context.clone();
    drop(caller);
    ensure_eq!(
        listener.next().await?,
        None,
        "what the subscriber of a dropped client yielded"
    );
    world
        .eventually("the tasks of a dropped client are gone", || {
            context.tracker.is_empty()
        })
        .await?;
    let (context, at) = (host.context.clone(), host.bound.clone());
    // Part by part: what is left works until the last.
    let Host {
        mut requests,
        publisher,
        control,
        departures,
        ..
    } = host;
    drop((publisher, control, departures));
    let caller = world.try_client(&at, world.limits()).await;
    let caller = caller.expecting("connecting to a server of which only the requests are left")?;
    let (reply, answered) = tokio::join!(caller.ask("still there"), async {
        requests.next().await.map(echo)
    });
    answered?;
    reply.expecting("a request to a server of which only the requests are left")?;
    caller.shut_down().await?;
    drop(requests);
    world
        .eventually("the tasks of a dropped server are gone", || {
            context.tracker.is_empty()
        })
        .await?;
    world.serve_soon(&at).await?.kill().await
}
