//! Subscribers that do not keep up.

use std::sync::Arc;

use saline_protocol::transport::{Delivery, Lost};

use crate::failure::{ensure, ensure_eq};
use crate::kit::{PING, World, exact, number, numbered, topic};
use crate::{Failure, Outcome};

pub(super) async fn slow_subscriber_isolated(world: Arc<World>) -> Outcome {
    const COUNT: u64 = 3000;
    let mut small = world.limits();
    small.subscriber_queue_messages = 16;
    let host = world.serve().await?;
    let slow = world.client_with(&host, small).await?;
    let fast = world.client(&host).await?;
    let sleeping = slow.subscribe(&[exact("t")?]).await?;
    // Nobody reads this one either, of the same client as the one that is read.
    let mut beside = fast.subscribe(&[exact("t")?]).await?;
    let mut reading = fast.subscribe(&[exact("t")?]).await?;
    let t = topic("t")?;
    // Within the fast one's queue, so that it does keep up.
    for burst in 0..COUNT / 500 {
        for n in burst * 500..(burst + 1) * 500 {
            host.publish(&t, numbered(n, 2000)).await?;
        }
        for n in burst * 500..(burst + 1) * 500 {
            let (_, payload) = reading.message().await?;
            ensure_eq!(
                number(&payload),
                n,
                "the fast subscriber's next publication"
            );
        }
    }
    // Nor is it told of what the others lost.
    while let Some(Delivery::Message { .. }) = beside.next().await? {}
    host.publish(&t, numbered(COUNT, 2000)).await?;
    let (_, last) = reading.message().await?;
    ensure_eq!(
        number(&last),
        COUNT,
        "the fast subscriber's last publication"
    );
    let told = reading.within(PING * 3, "").await;
    ensure!(
        told.is_err(),
        "a subscriber that lost nothing was told {told:?}"
    );
    drop((sleeping, beside));
    Ok(())
}

/// Publishes `count` messages to a subscriber that holds `room` and reads only afterwards, until
/// nothing more comes. Returns the numbers that arrived, and the losses between them.
async fn overrun(world: &World, room: usize, count: u64) -> Outcome<(Vec<u64>, Vec<Lost>)> {
    let mut small = world.limits();
    small.subscriber_queue_messages = room;
    let host = world.serve_with(small.clone()).await?;
    let caller = world.client_with(&host, small).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let t = topic("t")?;
    for n in 0..count {
        host.publish(&t, numbered(n, 100)).await?;
    }
    let (mut numbers, mut losses) = (Vec::new(), Vec::new());
    // Losses are told within two pings, in one part or in several.
    while let Ok(delivery) = listener.within(PING * 2 * 3, "the next delivery").await {
        match delivery {
            Some(Delivery::Message { payload, .. }) => numbers.push(number(&payload)),
            Some(Delivery::Lagged(lost)) => losses.push(lost),
            other => return Err(Failure::new(format!("the subscriber yielded {other:?}"))),
        }
    }
    Ok((numbers, losses))
}

pub(super) async fn loss_is_told(world: Arc<World>) -> Outcome {
    let (numbers, losses) = overrun(&world, 50, 5000).await?;
    ensure!(
        !losses.is_empty(),
        "5000 publications into a room of 50 without a loss"
    );
    for pair in numbers.windows(2) {
        ensure!(
            pair[0] < pair[1],
            "publication {} came after {}",
            pair[1],
            pair[0]
        );
    }
    ensure!(
        !losses.contains(&Lost::Messages(0)),
        "a loss of no messages was told"
    );
    Ok(())
}

pub(super) async fn losses_are_exact(world: Arc<World>) -> Outcome {
    // Small losses and large ones, in queues of either size.
    for (room, count) in [(50, 2000), (1, 40), (1000, 1030), (1000, 6000)] {
        let (numbers, losses) = overrun(&world, room, count).await?;
        let mut lost = 0;
        for loss in losses {
            match loss {
                Lost::Messages(n) => lost += n,
                Lost::Unknown => return Err(Failure::new("a loss of unknown size was told")),
            }
        }
        ensure_eq!(
            numbers.len() as u64 + lost,
            count,
            "publications delivered and told as lost, with room for {room}"
        );
    }
    Ok(())
}

pub(super) async fn last_loss_is_told(world: Arc<World>) -> Outcome {
    let mut small = world.limits();
    small.subscriber_queue_messages = 4;
    let host = world.serve_with(small.clone()).await?;
    let caller = world.client_with(&host, small).await?;
    let t = topic("t")?;
    for round in 0..3 {
        let mut listener = caller.subscribe(&[exact("t")?]).await?;
        for n in 0..3000 {
            host.publish(&t, numbered(n, 100)).await?;
        }
        // By then every publication has come to a queue that nobody reads: the last one is lost.
        world.clock().pause(PING).await;
        // Nothing more is published: what is read is what came, and then the loss. It may be told
        // in parts, the last of which is about the last publication.
        let promised = world.clock().after(PING * 2 * 3);
        let mut lost = false;
        let mut last = 0;
        while let Some(left) = promised.checked_duration_since(world.clock().now()) {
            match listener.within(left, "waiting for Lagged").await {
                Ok(Some(Delivery::Message { payload, .. })) => {
                    last = number(&payload);
                    lost = false;
                }
                Ok(Some(Delivery::Lagged(_))) => lost = true,
                Ok(other) => {
                    return Err(Failure::new(format!("the subscriber yielded {other:?}")));
                }
                Err(_) => break,
            }
        }
        ensure!(
            lost || last == 2999,
            "round {round}: the subscriber got publication {last} of 2999 and was told of no loss after it"
        );
    }
    Ok(())
}
