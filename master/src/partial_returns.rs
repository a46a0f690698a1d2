//! Returns that travel in parts, until they are whole. They are held in memory: after a restart of the
//! master a minion begins anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::{Incoming, Jid, MinionId, Return, ReturnPart, decode};
use saline_protocol::transport::{Clock, Instant};

/// How long a transfer without a new part is kept.
const KEPT: Duration = Duration::from_secs(300);

/// The most that all transfers under way may come to, as a multiple of the largest return.
const TOTAL: u64 = 4;

/// The bytes that each transfer counts beside its own, so that small ones are bounded in number.
const OVERHEAD: u64 = 64 * 1024;

/// The largest number of transfers of one minion. A further one takes the place of another.
const PER_MINION: usize = 4;

/// The returns of which some parts are here.
#[derive(Debug)]
pub struct PartialReturns {
    clock: Clock,
    /// The largest return in bytes.
    largest: u64,
    transfers: Mutex<Transfers>,
}

#[derive(Debug, Default)]
struct Transfers {
    by_job: BTreeMap<(MinionId, Jid), Transfer>,
    /// The size of all of them when they will be whole: a transfer that was begun always has room.
    reserved: u64,
}

#[derive(Debug)]
struct Transfer {
    incoming: Incoming,
    /// Whether the bytes are all there, and are being decoded.
    decoding: bool,
    touched: Instant,
}

impl Transfer {
    fn reserved(&self) -> u64 {
        self.incoming.total() + OVERHEAD
    }
}

/// The outcome of taking a part.
#[derive(Debug, PartialEq, Eq)]
pub enum PartOutcome {
    /// This many bytes from the beginning are here.
    Received(u64),
    /// The return is whole. It is kept until it is [forgotten](PartialReturns::forget).
    Whole(Return),
    /// There is no room for a further transfer now, or this one is being read.
    NoRoom,
    /// The part fits nothing, or the whole is no return.
    Malformed,
}

impl PartialReturns {
    /// Holds nothing yet, and takes returns of at most `largest` bytes.
    pub fn new(clock: Clock, largest: usize) -> Self {
        Self {
            clock,
            largest: largest as u64,
            transfers: Mutex::default(),
        }
    }

    /// Takes a part from a minion, and decodes the return on the thread of the caller when it is whole.
    pub fn take(&self, minion: &MinionId, sent: &ReturnPart) -> PartOutcome {
        let (jid, part) = (&sent.jid, &sent.part);
        let Ok(incoming) = Incoming::of(part) else {
            return PartOutcome::Malformed;
        };
        if part.total > self.largest {
            return PartOutcome::Malformed;
        }
        let key = (minion.clone(), jid.clone());
        let mut transfers = self.lock();
        let is_same = |transfer: &Transfer| transfer.incoming.is_of(part);
        if !transfers.by_job.get(&key).is_some_and(is_same) {
            transfers.forget(&key);
            transfers.forget_one_of_too_many(minion);
            let begun = Transfer {
                incoming: incoming.clone(),
                decoding: false,
                touched: self.clock.now(),
            };
            let most = self
                .largest
                .saturating_mul(TOTAL)
                .saturating_add(OVERHEAD * TOTAL);
            // One minion takes half at most, so that it does not keep the returns of all others out.
            let of_minion = transfers.reserved_of(minion) + begun.reserved();
            if transfers.reserved.saturating_add(begun.reserved()) > most || of_minion > most / 2 {
                return PartOutcome::NoRoom;
            }
            transfers.reserved += begun.reserved();
            transfers.by_job.insert(key.clone(), begun);
        }
        let Some(transfer) = transfers.by_job.get_mut(&key) else {
            return PartOutcome::Malformed;
        };
        if transfer.decoding {
            return PartOutcome::NoRoom;
        }
        match transfer.incoming.take(part) {
            Ok(true) => transfer.touched = self.clock.now(),
            Ok(false) => {}
            Err(_) => return PartOutcome::Malformed,
        }
        if !transfer.incoming.is_whole() {
            return PartOutcome::Received(transfer.incoming.received());
        }
        // Outside of the lock: a large return takes a while to decode.
        let arrived = std::mem::replace(&mut transfer.incoming, incoming);
        transfer.decoding = true;
        drop(transfers);
        let returned = arrived.whole().map(decode::<Return>);
        let Some(Ok(returned)) = returned.filter(|r| r.as_ref().is_ok_and(|r| r.jid == *jid))
        else {
            self.lock().forget(&key);
            return PartOutcome::Malformed;
        };
        let mut transfers = self.lock();
        let transfer = transfers.by_job.get_mut(&key);
        if let Some(transfer) = transfer.filter(|transfer| transfer.decoding && is_same(transfer)) {
            transfer.incoming = arrived;
            transfer.decoding = false;
        }
        PartOutcome::Whole(returned)
    }

    /// Forgets the parts of a return: it has its verdict.
    pub fn forget(&self, minion: &MinionId, jid: &Jid) {
        self.lock().forget(&(minion.clone(), jid.clone()));
    }

    /// Forgets transfers without a new part for five minutes.
    pub fn sweep(&self) {
        let mut transfers = self.lock();
        let now = self.clock.now();
        let stale: Vec<_> = transfers
            .by_job
            .iter()
            .filter(|(_, transfer)| now - transfer.touched >= KEPT)
            .map(|(key, _)| key.clone())
            .collect();
        for key in stale {
            tracing::info!(
                "job {}: minion {} stopped sending its large return; it begins anew when it is back",
                key.1,
                key.0
            );
            transfers.forget(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Transfers> {
        self.transfers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transfers {
    fn forget(&mut self, key: &(MinionId, Jid)) {
        if let Some(gone) = self.by_job.remove(key) {
            self.reserved -= gone.reserved();
        }
    }

    /// Makes room for one more transfer of a minion: forgets the one without a part for the longest time.
    /// Returns the size of all transfers of a minion when they will be whole.
    fn reserved_of(&self, minion: &MinionId) -> u64 {
        let of_minion = self.by_job.iter().filter(|(key, _)| key.0 == *minion);
        of_minion.map(|(_, transfer)| transfer.reserved()).sum()
    }

    fn forget_one_of_too_many(&mut self, minion: &MinionId) {
        let of_minion = || {
            let all = self.by_job.iter();
            all.filter(|(key, _)| key.0 == *minion)
        };
        if of_minion().count() >= PER_MINION
            && let Some((oldest, _)) = of_minion().min_by_key(|(_, transfer)| transfer.touched)
        {
            let oldest = oldest.clone();
            self.forget(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use saline_data::{Packed, Value};
    use saline_messages::{Arguments, Outgoing, encode};

    const LARGEST: usize = 10_000;

    fn minion(text: &str) -> MinionId {
        MinionId::parse(text).unwrap()
    }

    fn returned(number: u64, size: usize) -> Return {
        Return {
            jid: Jid::parse(&format!("{:020}", number)).unwrap(),
            fun: "test.echo".to_owned(),
            fun_args: Arguments::default().pack(),
            retcode: 0,
            success: true,
            payload: Packed::pack(&Value::Bytes(vec![7; size])),
        }
    }

    fn part(returned: &Return, offset: usize, length: usize) -> ReturnPart {
        ReturnPart {
            jid: returned.jid.clone(),
            part: Outgoing::new(encode(returned)).part(offset as u64, length),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_minion_does_not_keep_the_large_returns_of_others_out() {
        let parts = PartialReturns::new(Clock, LARGEST);
        let greedy = minion("greedy");
        let empty = |number| {
            let mut empty = part(&returned(number, 10), 0, 0);
            empty.part.total = LARGEST as u64;
            empty
        };
        let begun = (1..10)
            .filter(|number| parts.take(&greedy, &empty(*number)) == PartOutcome::Received(0));
        assert!(begun.count() >= 2, "two large ones are under way at once");
        let other = returned(20, 5_000);
        let first = parts.take(&minion("other"), &part(&other, 0, 2_000));
        assert_eq!(first, PartOutcome::Received(2_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_return_is_whole_when_its_last_part_is_here() {
        let parts = PartialReturns::new(Clock, LARGEST);
        let (a, returned) = (minion("a"), returned(1, 5_000));
        assert_eq!(
            parts.take(&a, &part(&returned, 0, 2_000)),
            PartOutcome::Received(2_000)
        );
        // Sent again, and one that overtook another.
        assert_eq!(
            parts.take(&a, &part(&returned, 0, 2_000)),
            PartOutcome::Received(2_000)
        );
        assert_eq!(
            parts.take(&a, &part(&returned, 4_000, 900)),
            PartOutcome::Received(2_000)
        );
        assert_eq!(
            parts.take(&a, &part(&returned, 2_000, 2_000)),
            PartOutcome::Received(4_000)
        );
        let last = part(&returned, 4_000, 2_000);
        assert_eq!(parts.take(&a, &last), PartOutcome::Whole(returned.clone()));
        // The store failed: the last part, sent again, is enough.
        assert_eq!(parts.take(&a, &last), PartOutcome::Whole(returned.clone()));
        parts.forget(&a, &returned.jid);
        assert_eq!(parts.lock().reserved, 0);
        assert_eq!(parts.take(&a, &last), PartOutcome::Received(0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_is_refused_and_leaves_nothing() {
        let parts = PartialReturns::new(Clock, LARGEST);
        let (a, good) = (minion("a"), returned(1, 5_000));
        let mut bad = part(&good, 0, 100);
        bad.part.total = LARGEST as u64 + 1;
        assert_eq!(parts.take(&a, &bad), PartOutcome::Malformed);
        bad.part.total = 50;
        assert_eq!(parts.take(&a, &bad), PartOutcome::Malformed);
        bad.part.offset = u64::MAX;
        assert_eq!(parts.take(&a, &bad), PartOutcome::Malformed);
        // Other bytes than announced, no return, and the return of another job.
        let mut other = part(&good, 0, LARGEST);
        other.part.bytes[100] ^= 1;
        assert_eq!(parts.take(&a, &other), PartOutcome::Malformed);
        let mut none = part(&good, 0, LARGEST);
        none.part = Outgoing::new(vec![1; 50]).part(0, 50);
        assert_eq!(parts.take(&a, &none), PartOutcome::Malformed);
        let mut foreign = part(&good, 0, LARGEST);
        foreign.jid = returned(2, 1).jid;
        assert_eq!(parts.take(&a, &foreign), PartOutcome::Malformed);
        assert!(parts.lock().by_job.is_empty() && parts.lock().reserved == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_that_was_begun_always_has_room() {
        let parts = PartialReturns::new(Clock, LARGEST);
        let returns: Vec<_> = (0..5).map(|n| returned(n, 9_000)).collect();
        let names = ["a", "b", "c", "d", "e"].map(minion);
        for (name, returned) in names.iter().zip(&returns).take(4) {
            let begun = parts.take(name, &part(returned, 0, 10));
            assert_eq!(begun, PartOutcome::Received(10));
        }
        let refused = parts.take(&names[4], &part(&returns[4], 0, 10));
        assert_eq!(refused, PartOutcome::NoRoom);
        for (name, returned) in names.iter().zip(&returns).take(4) {
            let whole = parts.take(name, &part(returned, 10, LARGEST));
            assert_eq!(whole, PartOutcome::Whole(returned.clone()));
            parts.forget(name, &returned.jid);
        }
        let begun = parts.take(&names[4], &part(&returns[4], 0, 10));
        assert_eq!(begun, PartOutcome::Received(10));
        tokio::time::advance(KEPT).await;
        parts.sweep();
        assert!(parts.lock().by_job.is_empty() && parts.lock().reserved == 0);
    }

    proptest! {
        #[test]
        fn any_parts_in_any_order_come_to_the_same_or_to_nothing(
            cuts in proptest::collection::vec((0..6_000usize, 0..3_000usize), 0..60),
        ) {
            let parts = PartialReturns::new(Clock, LARGEST);
            let (a, returned) = (minion("a"), returned(1, 5_000));
            for (offset, length) in cuts {
                match parts.take(&a, &part(&returned, offset, length)) {
                    PartOutcome::Received(bytes) => prop_assert!(bytes < 5_100),
                    PartOutcome::Whole(whole) => prop_assert_eq!(whole, returned.clone()),
                    PartOutcome::Malformed => prop_assert!(false),
                    PartOutcome::NoRoom => prop_assert!(false),
                }
            }
        }
    }
}
