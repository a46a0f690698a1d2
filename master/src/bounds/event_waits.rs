//! The places of requests that wait for events, so that these leave the places of a listener's other requests free. When all are
//! taken, whoever has most of them makes room for those who have fewer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_protocol::transport::{Clock, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::authorize::{LOCAL_OPERATOR, Principal};

/// The largest number of requests that wait, of all who ask: an eighth of what one listener takes.
const MAX_WAITS: usize = 2_048;

/// The part of these that one principal may have. An API has a listener for each of a user's windows.
const SHARE_OF_ONE: usize = 768;

/// The number of places that only root of this machine takes: whoever looks for what keeps the master busy finds a place.
const RESERVED: usize = 128;

/// How long a request has waited at least when a later one of the same principal takes its place: the one who asked may be
/// gone. If all of them are newer, the later one is to come again after this time.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The requests that wait for events. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct EventWaits {
    clock: Clock,
    table: Arc<Mutex<Table>>,
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct Table {
    /// Those of each principal, by the name of its orders, the oldest first.
    by_owner: HashMap<String, VecDeque<Wait>>,
    count: usize,
    /// The number of the wait that came last.
    last: u64,
}

#[derive(Debug)]
struct Wait {
    number: u64,
    since: Instant,
    given_up: Arc<Notify>,
}

/// The place of a request that waits for events, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct EventPlace {
    waits: EventWaits,
    owner: String,
    number: u64,
    given_up: Arc<Notify>,
}

impl EventWaits {
    /// Creates the state in which no request waits.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            table: Arc::default(),
            closed: CancellationToken::new(),
        }
    }

    /// Takes a place for a request of this principal. When there is none left, the newest request of the one who has most gives its
    /// place up, or else the oldest one of the same principal.
    ///
    /// # Errors
    /// When there is no place: the delay after which to ask again.
    pub(crate) fn take_place(&self, principal: &Principal) -> Result<EventPlace, Duration> {
        let (owner, now) = (principal.owner(), self.clock.now());
        let most = match principal.is_local_root() {
            true => MAX_WAITS,
            false => MAX_WAITS - RESERVED,
        };
        let mut table = self.lock();
        let of_one = table.by_owner.get(&owner).map_or(0, VecDeque::len);
        let has_place = if of_one >= SHARE_OF_ONE {
            table.evict_oldest(&owner, now)
        } else if table.count >= most {
            table.displace_for(of_one) || table.evict_oldest(&owner, now)
        } else {
            true
        };
        if !has_place {
            return Err(SHORTEST_WAIT);
        }
        table.last += 1;
        table.count += 1;
        let (number, given_up) = (table.last, Arc::new(Notify::new()));
        let waits = table.by_owner.entry(owner.clone()).or_default();
        waits.push_back(Wait {
            number,
            since: now,
            given_up: Arc::clone(&given_up),
        });
        Ok(EventPlace {
            waits: self.clone(),
            owner,
            number,
            given_up,
        })
    }

    /// Ends all waits, and lets no more begin: the master stops.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Whether the master stops.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Has the newest wait of the principal with most of them give its place up for one who has `fewer`. Two with as many as each
    /// other do not displace each other in turns, and root keeps what is reserved for it.
    fn displace_for(&mut self, fewer: usize) -> bool {
        let owners = self.by_owner.iter_mut();
        let owners = owners.filter(|(owner, of)| *owner != LOCAL_OPERATOR || of.len() > RESERVED);
        let largest = owners.max_by_key(|(_, of)| of.len());
        let Some((_, waits)) = largest.filter(|(_, of)| of.len() > fewer + 1) else {
            return false;
        };
        if let Some(newest) = waits.pop_back() {
            newest.given_up.notify_one();
            self.count -= 1;
        }
        true
    }

    /// Has the oldest wait of a principal give its place up, if it is not too new.
    fn evict_oldest(&mut self, owner: &str, now: Instant) -> bool {
        let Some(waits) = self.by_owner.get_mut(owner) else {
            return false;
        };
        let is_old = |wait: &Wait| now.saturating_duration_since(wait.since) >= SHORTEST_WAIT;
        if !waits.front().is_some_and(is_old) {
            return false;
        }
        if let Some(oldest) = waits.pop_front() {
            oldest.given_up.notify_one();
            self.count -= 1;
        }
        true
    }
}

impl EventPlace {
    /// Waits until the request is to be answered at once: another one takes its place, or the master stops.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn given_up(&self) {
        tokio::select! {
            () = self.given_up.notified() => {}
            () = self.waits.closed.cancelled() => {}
        }
    }
}

impl Drop for EventPlace {
    fn drop(&mut self) {
        let mut table = self.waits.lock();
        let Some(waits) = table.by_owner.get_mut(&self.owner) else {
            return;
        };
        // The oldest are in the front, in the order of their numbers.
        let found = waits.binary_search_by_key(&self.number, |wait| wait.number);
        let is_there = found.is_ok_and(|at| waits.remove(at).is_some());
        if waits.is_empty() {
            table.by_owner.remove(&self.owner);
        }
        if is_there {
            table.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn named(name: &str) -> Principal {
        Principal::Operator(name.to_owned())
    }

    fn is_given_up(place: &EventPlace) -> bool {
        let given_up = pin!(place.given_up());
        given_up.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[tokio::test(start_paused = true)]
    async fn one_principal_has_a_share_and_takes_the_place_of_its_oldest_request() {
        let waits = EventWaits::new(Clock);
        let places: Vec<_> = (0..SHARE_OF_ONE)
            .map(|_| waits.take_place(&named("amy")).unwrap())
            .collect();
        let refused = waits.take_place(&named("amy")).map(drop);
        assert_eq!(refused, Err(SHORTEST_WAIT), "all are new");
        let other = waits.take_place(&named("bob")).unwrap();
        Clock.pause(SHORTEST_WAIT).await;
        let later = waits.take_place(&named("amy")).unwrap();
        let given_up = places.iter().map(is_given_up);
        assert_eq!(given_up.filter(|given_up| *given_up).count(), 1);
        assert!(!is_given_up(&later) && !is_given_up(&other));
        assert_eq!(waits.lock().count, SHARE_OF_ONE + 1);
        drop((places, later, other));
        let table = waits.lock();
        assert_eq!((table.count, table.by_owner.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_are_bounded_and_those_who_have_as_many_displace_nobody() {
        let waits = EventWaits::new(Clock);
        let most = MAX_WAITS - RESERVED;
        let owners: Vec<Principal> = (0..most).map(|n| named(&n.to_string())).collect();
        let places: Vec<_> = owners
            .iter()
            .map(|owner| waits.take_place(owner).unwrap())
            .collect();
        Clock.pause(SHORTEST_WAIT).await;
        assert!(waits.take_place(&named("another")).is_err());
        let of_root: Vec<_> = (0..RESERVED)
            .map(|_| waits.take_place(&Principal::LocalRoot).unwrap())
            .collect();
        assert!(waits.take_place(&named("another")).is_err());
        assert!(!places.iter().chain(&of_root).any(is_given_up));
        drop(of_root);
        let own = waits.take_place(&owners[0]).unwrap();
        assert!(is_given_up(&places[0]), "its own");
        drop(own);
        waits.take_place(&named("another")).unwrap();
    }

    #[test]
    fn a_few_principals_keep_neither_others_nor_root_out() {
        let waits = EventWaits::new(Clock);
        let mut places: HashMap<&str, Vec<EventPlace>> = HashMap::new();
        for name in ["amy", "bob", "eve"] {
            let own = (0..SHARE_OF_ONE).map_while(|_| waits.take_place(&named(name)).ok());
            places.insert(name, own.collect());
        }
        let held = |places: &HashMap<&str, Vec<EventPlace>>, name: &str| {
            let own = places[name].iter();
            own.filter(|place| !is_given_up_by_table(&waits, place))
                .count()
        };
        let taken: Vec<usize> = ["amy", "bob", "eve"].map(|name| held(&places, name)).into();
        assert_eq!(taken.iter().sum::<usize>(), MAX_WAITS - RESERVED);
        assert!(taken.iter().all(|own| *own >= 640 - 1), "{taken:?}");
        // Somebody else has a fair share at once, all new as the others are.
        let other = (0..SHARE_OF_ONE).map_while(|_| waits.take_place(&named("zoe")).ok());
        let other: Vec<_> = other.collect();
        assert_eq!(other.len(), (MAX_WAITS - RESERVED) / 4);
        assert!(!other.iter().any(is_given_up));
        assert!(held(&places, "amy") >= other.len());
        // And root has what is reserved for it, without anybody's giving way.
        let before = held(&places, "amy") + held(&places, "bob") + held(&places, "eve");
        let of_root = (0..RESERVED).map(|_| waits.take_place(&Principal::LocalRoot).unwrap());
        let of_root: Vec<_> = of_root.collect();
        let after = held(&places, "amy") + held(&places, "bob") + held(&places, "eve");
        assert_eq!((of_root.len(), after), (RESERVED, before));
        drop((places, other, of_root));
        let table = waits.lock();
        assert_eq!((table.count, table.by_owner.len()), (0, 0));
    }

    /// Whether a place is in the table no more, without taking the notice of that.
    fn is_given_up_by_table(waits: &EventWaits, place: &EventPlace) -> bool {
        let table = waits.lock();
        let own = table.by_owner.get(&place.owner);
        own.is_none_or(|own| !own.iter().any(|wait| wait.number == place.number))
    }

    #[test]
    fn the_end_of_the_master_ends_every_wait() {
        let waits = EventWaits::new(Clock);
        let place = waits.take_place(&named("amy")).unwrap();
        assert!(!is_given_up(&place) && !waits.is_closed());
        waits.close();
        assert!(is_given_up(&place) && waits.is_closed());
    }
}
