//! Subscribers that do not keep up.

use std::sync::Arc;

use saline_protocol::transport::{Delivery, DropAccounting, Limits, Lost};

use crate::failure::{ensure, ensure_eq};
use crate::kit::{Listener, PING, TEST_TIMEOUT, World, exact, number, numbered, topic};
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
    two_slow_ones(&world).await
}

/// Two subscribers of one client and one topic read nothing for a while: each is told of its own losses.
async fn two_slow_ones(world: &World) -> Outcome {
    const COUNT: u64 = 2000;
    let small = with_room(world, 50);
    let host = world.serve_with(small.clone()).await?;
    let caller = world.client_with(&host, small).await?;
    let t = topic("t")?;
    let mut first = caller.subscribe(&[exact("t")?]).await?;
    for n in 0..COUNT / 2 {
        host.publish(&t, numbered(n, 100)).await?;
    }
    // It comes later, and so it has lost less.
    let mut second = caller.subscribe(&[exact("t")?]).await?;
    for n in COUNT / 2..COUNT {
        host.publish(&t, numbered(n, 100)).await?;
    }
    let mut told = Vec::new();
    for (listener, published) in [(&mut first, COUNT), (&mut second, COUNT / 2)] {
        let got = all_of(listener, published, COUNT - 1).await?;
        told.push(got.into_iter().map(Got::counts).sum::<u64>());
    }
    if world.transport.capabilities().drop_accounting == DropAccounting::Exact {
        ensure_eq!(
            told,
            [COUNT, COUNT / 2],
            "what two slow subscribers of one client got and were told as lost, each"
        );
    }
    Ok(())
}

/// What a subscriber of numbered publications got.
#[derive(Debug, Clone, Copy)]
enum Got {
    Number(u64),
    Loss(Lost),
}

impl Got {
    /// Returns the publications that it accounts for, as far as it says.
    fn counts(self) -> u64 {
        match self {
            Self::Number(_) => 1,
            Self::Loss(Lost::Messages(count)) => count,
            Self::Loss(Lost::Unknown) => 0,
        }
    }
}

/// Limits with room for so many publications of a subscriber, whose losses are told soon.
fn with_room(world: &World, messages: usize) -> Limits {
    let mut limits = world.with_short_pings();
    limits.subscriber_queue_messages = messages;
    limits
}

/// Reads a subscriber of `published` publications, of which `last` is the last, until nothing more comes. Until all of them
/// are accounted for, it waits as long as a busy machine may take. Returns what it got, in order.
async fn all_of(listener: &mut Listener, published: u64, last: u64) -> Outcome<Vec<Got>> {
    let (mut got, mut counted) = (Vec::new(), 0);
    loop {
        let is_complete = match got.last() {
            Some(Got::Number(number)) => *number >= last,
            // It may be about the last one. Where it says of how many, that is known.
            Some(Got::Loss(Lost::Unknown)) => true,
            Some(Got::Loss(_)) => counted >= published,
            None => false,
        };
        // Losses are told within two pings, in one part or in several.
        let limit = match is_complete {
            true if counted >= published => PING * 2,
            true => PING * 2 * 3,
            false => TEST_TIMEOUT,
        };
        let Ok(delivery) = listener.within(limit, "the next delivery").await else {
            return Ok(got);
        };
        let one = match delivery {
            Some(Delivery::Message { payload, .. }) => Got::Number(number(&payload)),
            Some(Delivery::Lagged(lost)) => Got::Loss(lost),
            other => return Err(Failure::new(format!("the subscriber yielded {other:?}"))),
        };
        counted += one.counts();
        got.push(one);
    }
}

/// Publishes `count` messages to a subscriber that holds `room` and reads only afterwards, until
/// nothing more comes. Returns what it got, in order.
async fn overrun(world: &World, room: usize, count: u64) -> Outcome<Vec<Got>> {
    let small = with_room(world, room);
    let host = world.serve_with(small.clone()).await?;
    let caller = world.client_with(&host, small).await?;
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    let t = topic("t")?;
    for n in 0..count {
        host.publish(&t, numbered(n, 100)).await?;
    }
    all_of(&mut listener, count, count - 1).await
}

pub(super) async fn loss_is_told(world: Arc<World>) -> Outcome {
    let exact = world.transport.capabilities().drop_accounting == DropAccounting::Exact;
    let mut told = 0;
    for (room, count) in [(50, 5000), (1, 40), (1000, 1030)] {
        let got = overrun(&world, room, count).await?;
        // The number that comes next if nothing is lost, and what was told since the last one.
        let (mut expected, mut lost) = (0, None);
        for one in got {
            match one {
                Got::Loss(Lost::Messages(0)) => {
                    return Err(Failure::new("a loss of no messages was told"));
                }
                Got::Loss(loss) => {
                    told += 1;
                    lost = Some(added(lost, loss));
                }
                Got::Number(number) => {
                    in_place(expected, number, lost, exact)?;
                    (expected, lost) = (number + 1, None);
                }
            }
        }
        in_place(expected, count, lost, exact)?;
    }
    ensure!(
        told > 0,
        "5000 publications into a room of 50 without a loss"
    );
    Ok(())
}

/// Returns what both losses are together.
fn added(before: Option<Lost>, loss: Lost) -> Lost {
    match (before, loss) {
        (None, loss) => loss,
        (Some(Lost::Messages(before)), Lost::Messages(more)) => Lost::Messages(before + more),
        (Some(_), _) => Lost::Unknown,
    }
}

/// Fails unless what was told between two publications fits to their numbers: `expected` would have come
/// next, `number` came, and `lost` was told in between.
fn in_place(expected: u64, number: u64, lost: Option<Lost>, exact: bool) -> Outcome {
    ensure!(
        number >= expected,
        "publication {number} came where {expected} was expected"
    );
    let missed = number - expected;
    let fits = match lost {
        None => missed == 0,
        Some(Lost::Messages(told)) if exact => told == missed,
        Some(_) => missed > 0,
    };
    ensure!(
        fits,
        "{missed} publications are missing before number {number}, and the subscriber was told of {lost:?} there"
    );
    Ok(())
}

pub(super) async fn losses_are_exact(world: Arc<World>) -> Outcome {
    // Small losses and large ones, in queues of either size.
    for (room, count) in [(50, 2000), (1, 40), (1000, 1030), (1000, 6000)] {
        let (mut arrived, mut lost) = (0, 0);
        for one in overrun(&world, room, count).await? {
            match one {
                Got::Number(_) => arrived += 1,
                Got::Loss(Lost::Messages(n)) => lost += n,
                Got::Loss(Lost::Unknown) => {
                    return Err(Failure::new("a loss of unknown size was told"));
                }
            }
        }
        ensure_eq!(
            arrived + lost,
            count,
            "publications delivered and told as lost, with room for {room}"
        );
    }
    Ok(())
}

pub(super) async fn last_loss_is_told(world: Arc<World>) -> Outcome {
    let small = with_room(&world, 4);
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
