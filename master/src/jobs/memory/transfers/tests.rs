//! What has room, what gives way, and that transfers come to an end.

use proptest::prelude::*;
use saline_messages::Outgoing;
use saline_protocol::transport::Clock;

use super::*;

const TIGHT_LIMITS: TransferLimits = TransferLimits {
    largest: 1_000,
    most: 2_000,
};

fn key(minion: &str, job: i64) -> ReturnKey {
    (MinionId::parse(minion).unwrap(), job)
}

/// Has a part written, and returns whether it was admitted.
fn write(transfers: &mut Transfers, key: &ReturnKey, part: &Part, now: Instant) -> bool {
    match transfers.admit(key, 1, part, now) {
        Admission::Write(written) => {
            let (first, length) = (written.transfer.first, part.bytes.len() as u64);
            match written.is_last {
                true => transfers.ended(key, first),
                false => transfers.written(key, first, length, TransferDigest::default()),
            }
            true
        }
        _ => false,
    }
}

fn whole(length: usize) -> Outgoing {
    Outgoing::new(vec![7; length])
}

#[tokio::test(start_paused = true)]
async fn what_fits_nothing_is_malformed_and_leaves_nothing() {
    let (mut transfers, a, now) = (Transfers::new(TIGHT_LIMITS), key("a", 1), Clock.now());
    let good = whole(500).part(0, 100);
    for bad in [
        Part {
            total: 1_001,
            ..good.clone()
        },
        Part {
            total: 50,
            ..good.clone()
        },
        Part {
            offset: u64::MAX,
            ..good.clone()
        },
        Part {
            total: 0,
            bytes: Vec::new().into(),
            ..good.clone()
        },
    ] {
        let admission = transfers.admit(&a, 1, &bad, now);
        assert!(matches!(admission, Admission::Malformed), "{bad:?}");
    }
    assert!(transfers.by_return.is_empty());
    // Parts of one byte are bounded in number too.
    let mut crumbs = Transfers::new(TransferLimits {
        largest: 1 << 20,
        most: 1 << 21,
    });
    let whole = whole(1 << 20);
    for offset in 0..MAX_PARTS as u64 {
        assert!(write(&mut crumbs, &a, &whole.part(offset, 1), now));
    }
    let admission = crumbs.admit(&a, 1, &whole.part(MAX_PARTS as u64, 1), now);
    assert!(matches!(admission, Admission::Malformed));
    assert_eq!((crumbs.bytes, crumbs.take_unneeded().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn announcing_much_takes_no_room() {
    let (mut transfers, now) = (Transfers::new(TIGHT_LIMITS), Clock.now());
    for minion in ["a", "b", "c", "d"] {
        for job in 0..10 {
            let announced = whole(1_000).part(0, 1);
            assert!(write(&mut transfers, &key(minion, job), &announced, now));
        }
    }
    assert_eq!(transfers.by_return.len(), 4 * PER_MINION);
    let other = whole(900).part(0, 900);
    assert!(write(&mut transfers, &key("other", 1), &other, now));
    assert_eq!(transfers.bytes, 16);
}

#[tokio::test(start_paused = true)]
async fn what_stands_still_or_crawls_gives_way() {
    let mut transfers = Transfers::new(TIGHT_LIMITS);
    let (still, crawling) = (key("still", 1), key("crawling", 1));
    let begun = Clock.now();
    assert!(write(
        &mut transfers,
        &still,
        &whole(1_000).part(0, 990),
        begun
    ));
    assert!(write(
        &mut transfers,
        &crawling,
        &whole(1_000).part(0, 980),
        begun
    ));
    let other = (key("other", 1), whole(500));
    let takes =
        |transfers: &mut Transfers, now| write(transfers, &other.0, &other.1.part(0, 400), now);
    assert!(!takes(&mut transfers, begun), "there is no room");
    for second in 1..10 {
        tokio::time::advance(Duration::from_secs(1)).await;
        let byte = whole(1_000).part(979 + second, 1);
        assert!(write(&mut transfers, &crawling, &byte, Clock.now()));
    }
    assert!(!takes(&mut transfers, Clock.now()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(takes(&mut transfers, Clock.now()));
    assert_eq!(transfers.take_unneeded().len(), 1);
    assert!(!transfers.by_return.contains_key(&still));
    let third = (key("third", 1), whole(1_000));
    assert!(!write(
        &mut transfers,
        &third.0,
        &third.1.part(0, 900),
        Clock.now()
    ));
    for second in 10..61 {
        tokio::time::advance(Duration::from_secs(1)).await;
        let byte = whole(1_000).part(979 + second.min(18), 1);
        write(&mut transfers, &crawling, &byte, Clock.now());
        // It moves too, and is younger.
        let byte = other.1.part(400 + second - 10, 1);
        assert!(write(&mut transfers, &other.0, &byte, Clock.now()));
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(write(
        &mut transfers,
        &third.0,
        &third.1.part(0, 900),
        Clock.now()
    ));
    assert!(!transfers.by_return.contains_key(&crawling));
    assert!(transfers.by_return.contains_key(&other.0));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_written_is_given_back() {
    let (mut transfers, a, now) = (Transfers::new(TIGHT_LIMITS), key("a", 1), Clock.now());
    let whole = whole(500);
    let Admission::Write(first) = transfers.admit(&a, 1, &whole.part(0, 100), now) else {
        panic!("there is room");
    };
    let admission = transfers.admit(&a, 1, &whole.part(0, 100), now);
    assert!(matches!(admission, Admission::Busy), "one at a time");
    transfers.not_written(&a, first.transfer.first, None);
    assert_eq!(transfers.take_unneeded(), [(1, first.transfer.first)]);
    assert!(write(&mut transfers, &a, &whole.part(0, 100), now));
    let Admission::Write(second) = transfers.admit(&a, 1, &whole.part(100, 100), now) else {
        panic!("there is room");
    };
    transfers.not_written(&a, second.transfer.first, None);
    assert!(
        transfers.take_unneeded().is_empty(),
        "the first part is there"
    );
    assert!(write(&mut transfers, &a, &whole.part(100, 400), now));
    assert_eq!((transfers.bytes, transfers.by_return.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_without_a_part_for_an_hour_is_forgotten() {
    let (mut transfers, a) = (Transfers::new(TIGHT_LIMITS), key("a", 1));
    assert!(write(
        &mut transfers,
        &a,
        &whole(500).part(0, 100),
        Clock.now()
    ));
    tokio::time::advance(STALLED_LIFETIME - Duration::from_secs(1)).await;
    assert!(transfers.sweep(Clock.now()).is_empty());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(transfers.sweep(Clock.now()), [a]);
    assert_eq!((transfers.bytes, transfers.take_unneeded().len()), (0, 1));
}

proptest! {
    /// Each sends its next part again when it is told to come later, as minions do.
    #[test]
    fn transfers_that_fill_the_room_come_to_an_end(
        lengths in proptest::collection::vec(1..1_000usize, 1..12),
        turns in proptest::collection::vec((0..12usize, 1..400usize), 0..200),
    ) {
        let mut transfers = Transfers::new(TransferLimits { largest: 1_000, most: 1_000 });
        let now = Clock.now();
        let keys: Vec<_> = (0..lengths.len()).map(|number| key(&format!("m{number}"), 1)).collect();
        let mut offsets = vec![0; lengths.len()];
        let step = |transfers: &mut Transfers, offsets: &mut Vec<usize>, number: usize, size| {
            if offsets[number] == lengths[number] {
                return false;
            }
            let part = whole(lengths[number]).part(offsets[number] as u64, size);
            let written = write(transfers, &keys[number], &part, now);
            offsets[number] += if written { part.bytes.len() } else { 0 };
            assert!(transfers.bytes <= 1_000 + 1_000, "one goes beyond the limit");
            written
        };
        for (number, size) in turns {
            step(&mut transfers, &mut offsets, number % lengths.len(), size);
        }
        while offsets != lengths {
            let moved = (0..lengths.len())
                .filter(|number| step(&mut transfers, &mut offsets, *number, 100))
                .count();
            prop_assert!(moved > 0, "{offsets:?} of {lengths:?}");
        }
        prop_assert_eq!((transfers.bytes, transfers.by_return.len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_return_is_arriving_while_its_parts_come() {
    let (mut transfers, a, mut now) = (Transfers::new(TIGHT_LIMITS), key("a", 1), Clock.now());
    assert!(!transfers.is_arriving(&a, now));
    let whole = whole(300);
    for offset in [0, 100] {
        assert!(write(&mut transfers, &a, &whole.part(offset, 100), now));
        now += ARRIVING - Duration::from_secs(1);
        assert!(transfers.is_arriving(&a, now));
    }
    assert!(!transfers.is_arriving(&key("b", 1), now));
    assert!(!transfers.is_arriving(&a, now + Duration::from_secs(1)));
    assert!(write(&mut transfers, &a, &whole.part(200, 100), now));
    assert!(!transfers.is_arriving(&a, now), "it is stored");
}
