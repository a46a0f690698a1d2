//! What one client can make the server hold. What clients are owed otherwise is in the hub's model.

use super::*;
use crate::state::BATCH;
use saline_protocol::transport::AdmissionLimits;

/// Everything that the queue holds, as the bytes that it is written as.
fn encoded(queue: &mut OutboundQueue) -> usize {
    let (mut buffer, mut drained) = (SendBuffer::default(), Drained::default());
    while queue.drain(0, &mut drained) == Next::Write {
        drained.encode_into(&mut buffer, usize::MAX);
    }
    buffer.len()
}

fn queue(limits: &Limits) -> OutboundQueue {
    OutboundQueue::new(limits, usize::MAX)
}

fn reply(size: usize) -> Answer {
    Answer::Reply(Bytes::from(vec![1; size]))
}

#[test]
fn a_client_that_never_reads_is_owed_one_frame_above_the_limit() {
    const LARGEST: usize = 100_000;
    for kind in 0..5 {
        let mut queue = queue(&Limits::default());
        let mut owed = 0;
        while !queue.is_overdrawn() {
            owed += 1;
            match (kind, owed % 3) {
                (0, _) => queue.answer(owed, Answer::NoReply),
                (1, _) => queue.answer(owed, reply(0)),
                (2, _) => queue.answer(owed, reply(LARGEST)),
                (3, _) | (4, 0) => queue.confirm(owed, true),
                (_, 1) => queue.answer(owed, reply(1000)),
                _ => queue.confirm(owed, false),
            }
        }
        assert!(owed as usize <= OWED / OVERHEAD + 1, "kind {kind}: {owed}");
        assert!(queue.waiting() <= OWED + OVERHEAD + LARGEST, "kind {kind}");
        let bytes = encoded(&mut queue);
        assert!(
            bytes <= OWED + REQUEST_HEADER + LARGEST,
            "kind {kind}: {bytes}"
        );
        assert_eq!((queue.waiting(), queue.is_overdrawn()), (0, false));
    }
}

#[test]
fn exactly_the_limit_may_be_owed() {
    let mut queue = queue(&Limits::default());
    queue.answer(1, reply(OWED - OVERHEAD));
    assert!(!queue.is_overdrawn());
    queue.confirm(1, true);
    assert!(queue.is_overdrawn());
}

/// Returns limits with those before admission: two publications, of 1000 bytes together.
fn with_admission() -> Limits {
    let mut admission = AdmissionLimits::default();
    (admission.queue_messages, admission.queue_bytes) = (2, 1000);
    let mut limits = Limits::default();
    limits.admission = Some(admission);
    limits
}

#[test]
fn little_waits_for_a_client_that_is_not_admitted() {
    let topic = "t".parse().unwrap();
    let publication = |size| PublicationFrame::new(&topic, Bytes::from(vec![1; size]));
    for (size, room) in [(0, 2), (400, 2), (600, 1)] {
        let limits = with_admission();
        let mut queue = queue(&limits);
        let mut publish = |number| queue.publish(number, &publication(size), 1);
        let queued = (1..=5).filter(|number| publish(*number) != EnqueueResult::Dropped);
        assert_eq!(queued.count(), room, "of {size} bytes");
        queue.admit(&limits, false);
        assert_eq!(
            queue.publish(6, &publication(size), 1),
            EnqueueResult::Queued
        );
    }
    let limits = with_admission();
    let mut queue = queue(&limits);
    queue.answer(1, reply(1000));
    assert!(queue.is_overdrawn());
    queue.admit(&limits, false);
    assert!(!queue.is_overdrawn());
}

#[test]
fn who_is_admitted_is_told_once_and_before_anything_else() {
    let limits = with_admission();
    for hears in [true, false] {
        let mut queue = queue(&limits);
        let (mut buffer, mut drained) = (SendBuffer::default(), Drained::default());
        queue.answer(1, reply(10));
        queue.admit(&limits, hears);
        assert_eq!(queue.drain(0, &mut drained), Next::Write);
        drained.encode_into(&mut buffer, usize::MAX);
        let told = usize::from(hears) * HEADER;
        assert_eq!(buffer.len(), told + REQUEST_HEADER + 10);
        let waits = matches!(queue.drain(0, &mut drained), Next::Wait { .. });
        assert!(waits, "it is told once");
    }
}

#[test]
fn who_is_admitted_is_told_although_nothing_else_waits() {
    let limits = with_admission();
    let mut queue = queue(&limits);
    queue.admit(&limits, true);
    assert_eq!(queue.drain(0, &mut Drained::default()), Next::Write);
}

#[test]
fn a_reader_that_waits_is_told_once_that_there_is_room() {
    let mut queue = queue(&Limits::default());
    let mut drained = Drained::default();
    queue.answer(0, reply(10));
    queue.drain(0, &mut drained);
    assert!(!drained.has_room, "nobody waited");
    for request in 0..200 {
        queue.answer(request, reply(10_000));
    }
    let mut told = 0;
    while queue.drain(0, &mut drained) == Next::Write {
        if drained.has_room {
            told += 1;
            assert!(!queue.is_overdrawn());
        }
        assert_eq!(queue.is_overdrawn(), told == 0);
    }
    assert_eq!(told, 1);
}

/// A subscriber with many subscriptions can put confirmations between its losses, so that they do
/// not become one.
#[test]
fn losses_are_owed_as_well() {
    const SUBSCRIPTIONS: u64 = 100;
    let mut limits = Limits::default();
    limits.subscriber_queue_messages = 1;
    let mut queue = queue(&limits);
    let topic = "t".parse().unwrap();
    let publication = PublicationFrame::new(&topic, Bytes::new());
    let mut number = 0;
    while !queue.is_overdrawn() {
        number += 1;
        for subscription in 0..SUBSCRIPTIONS {
            queue.publish(number, &publication, subscription);
        }
        queue.confirm(number, true);
    }
    let bytes = encoded(&mut queue);
    let once = SUBSCRIPTIONS as usize * OVERHEAD;
    assert!(bytes <= OWED + once, "{bytes}");
    assert_eq!((queue.waiting(), queue.is_overdrawn()), (0, false));
}

/// What is small fits between what is large and does not, so that losses have no neighbours to join.
#[test]
fn losses_beside_what_fits_are_bounded() {
    // So that a group of losses reaches the bound exactly.
    const SUBSCRIPTIONS: u64 = 8;
    let mut limits = Limits::default();
    (
        limits.subscriber_queue_messages,
        limits.subscriber_queue_bytes,
    ) = (usize::MAX, 1000);
    let mut queue = queue(&limits);
    let topic = "t".parse().unwrap();
    let [small, large] =
        [1, 2000].map(|size| PublicationFrame::new(&topic, Bytes::from(vec![1; size])));
    let mut lost = 0;
    for number in 1..=900 {
        let publication = if number % 2 == 1 { &small } else { &large };
        let of = |subscription| queue.publish(number, publication, subscription);
        lost += (0..SUBSCRIPTIONS)
            .map(of)
            .filter(|result| *result == EnqueueResult::Dropped)
            .count();
    }
    assert!(lost > 2 * MAX_LOSSES);
    assert_eq!(queue.losses, MAX_LOSSES);
    let groups = queue.publications.iter().filter_map(|queued| match queued {
        Queued::Lost(lost) => Some(lost),
        _ => None,
    });
    let (counts, told) = groups.flatten().fold((0, 0), |(counts, told), (_, count)| {
        (counts + 1, told + count)
    });
    assert_eq!(
        (counts, told as usize),
        (queue.losses, lost),
        "every loss is told"
    );
    encoded(&mut queue);
    assert_eq!(queue.losses, 0);
    assert_eq!(queue.publish(1000, &small, 1), EnqueueResult::Queued);
}

#[test]
fn a_loss_that_was_written_counts_no_more() {
    let mut limits = Limits::default();
    limits.subscriber_queue_messages = 1;
    let mut queue = queue(&limits);
    let publication = PublicationFrame::new(&"t".parse().unwrap(), Bytes::new());
    queue.publish(1, &publication, 1);
    assert_eq!(queue.publish(2, &publication, 1), EnqueueResult::Dropped);
    encoded(&mut queue);
    assert_eq!((queue.losses, queue.waiting()), (0, 0));
}

/// What is waiting tells a writer whether a burst still grows, so the smallest message counts.
#[test]
fn an_empty_publication_waits_as_well() {
    let mut queue = queue(&Limits::default());
    let publication = PublicationFrame::new(&"t".parse().unwrap(), Bytes::new());
    for number in 1..=3 {
        queue.publish(number, &publication, 1);
        assert_eq!(queue.waiting(), number as usize * REQUEST_HEADER);
    }
}

#[test]
fn a_writer_gathers_answers_until_they_are_a_batch() {
    let mut queue = queue(&Limits::default());
    queue.drain(0, &mut Drained::default());
    assert!(!queue.is_gathering(), "there is nothing yet");
    assert!(queue.take_wake(1));
    assert!(queue.is_gathering());
    assert!(queue.take_wake(BATCH));
    assert!(!queue.is_gathering());
}

#[test]
fn a_write_takes_about_the_boundary() {
    let mut limits = Limits::default();
    limits.subscriber_queue_bytes = usize::MAX;
    let topic = "t".parse().unwrap();
    let publication = PublicationFrame::new(&topic, Bytes::from(vec![1; 10_000]));
    for answers in [true, false] {
        let mut queue = queue(&limits);
        for number in 1..=100 {
            match answers {
                true => queue.answer(number, reply(10_000)),
                false => drop(queue.publish(number, &publication, 1)),
            }
        }
        for staged in [0, 50_000, BOUNDARY] {
            let (mut buffer, mut drained) = (SendBuffer::default(), Drained::default());
            assert_eq!(queue.drain(staged, &mut drained), Next::Write);
            drained.encode_into(&mut buffer, usize::MAX);
            let more = BOUNDARY - staged;
            let most = more + 10_000 + OVERHEAD;
            assert!((more.saturating_sub(2000)..=most).contains(&buffer.len()));
            assert_eq!(buffer.is_empty(), staged == BOUNDARY);
        }
    }
}

/// Idle connections are many: what they needed while they were busy goes.
#[test]
fn an_idle_queue_keeps_no_memory() {
    let mut limits = Limits::default();
    limits.subscriber_queue_messages = 1;
    let mut queue = queue(&limits);
    let topic = "t".parse().unwrap();
    let publication = PublicationFrame::new(&topic, Bytes::new());
    for number in 1..1000 {
        queue.answer(number, Answer::NoReply);
        queue.publish(number, &publication, number);
        queue.confirm(number, true);
    }
    encoded(&mut queue);
    queue.rest();
    assert_eq!(queue.capacity(), 0);
}

#[test]
fn a_writer_is_woken_once_and_only_when_it_waits() {
    let mut queue = queue(&Limits::default());
    let mut drained = Drained::default();
    queue.confirm(1, true);
    assert!(!queue.take_wake(0), "it has not gone to wait");
    assert_eq!(queue.drain(0, &mut drained), Next::Write);
    assert!(!queue.take_wake(0), "it writes, and looks again");
    queue.drain(0, &mut drained);
    queue.confirm(2, true);
    assert!(queue.take_wake(0));
    queue.confirm(3, true);
    assert!(!queue.take_wake(0));
}
