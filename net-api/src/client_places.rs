//! Places that clients take of something of which there is a bounded number, such as connections.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_client::transport::{Source, SourcePlaces};
use tokio::sync::Notify;

/// Places that sources share. When all are taken, the source that has most of them gives up its oldest for a source that has fewer, so
/// that one address does not keep the others out.
#[derive(Debug)]
pub(crate) struct ClientPlaces {
    /// The number of places.
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// The places that may have to be given up.
    shared: SourcePlaces<u64>,
    given_up: HashMap<u64, Arc<Notify>>,
    /// The places that are kept whoever comes.
    kept: HashSet<u64>,
    /// The number of the place that was taken last.
    last: u64,
}

/// The place of one client, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct ClientPlace {
    places: Arc<ClientPlaces>,
    number: u64,
    given_up: Arc<Notify>,
}

impl ClientPlaces {
    /// Makes this number of places.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let taken = Mutex::default();
        Arc::new(Self { most, taken })
    }

    /// Takes a place for a client of this source; none when all are taken and nobody gives one up for it.
    pub(crate) fn take(self: &Arc<Self>, source: Source) -> Option<ClientPlace> {
        let mut taken = self.lock();
        let number = taken.last + 1;
        let left = self.most.saturating_sub(taken.kept.len());
        let oldest = taken.shared.take_one_of(left, number, source).ok()?;
        if let Some(given_up) = oldest.and_then(|oldest| taken.given_up.remove(&oldest)) {
            given_up.notify_one();
        }
        taken.last = number;
        let given_up = Arc::new(Notify::new());
        taken.given_up.insert(number, Arc::clone(&given_up));
        Some(ClientPlace {
            places: Arc::clone(self),
            number,
            given_up,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientPlace {
    /// Has the place be given up for nobody from now on, unless it was before.
    pub(crate) fn keep(&self) {
        let mut taken = self.places.lock();
        if taken.shared.release(&self.number) {
            taken.given_up.remove(&self.number);
            taken.kept.insert(self.number);
        }
    }

    /// Waits until the place was given up for another source. One task may wait for that.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.shared.release(&self.number);
        taken.given_up.remove(&self.number);
        taken.kept.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn source(number: u8) -> Source {
        Source::of(SocketAddr::from(([192, 0, 2, number], 4_711)))
    }

    /// Returns which of these were given up.
    fn given_up(places: &[ClientPlace]) -> Vec<usize> {
        let at_once = |place: &ClientPlace| {
            let waiting = std::pin::pin!(place.given_up());
            let mut task = std::task::Context::from_waker(std::task::Waker::noop());
            waiting.poll(&mut task).is_ready()
        };
        let numbered = places.iter().enumerate();
        let given_up = numbered.filter(|(_, place)| at_once(place));
        given_up.map(|(number, _)| number).collect()
    }

    #[test]
    fn one_source_does_not_keep_the_others_out() {
        let places = ClientPlaces::new(4);
        let many: Vec<ClientPlace> = (0..4).map(|_| places.take(source(1)).unwrap()).collect();
        assert!(places.take(source(1)).is_none(), "it has them all");
        assert_eq!(given_up(&many), [0; 0]);
        let other = places.take(source(2)).unwrap();
        assert_eq!(given_up(&many), [0]);
        drop((many, other));
        let taken = places.lock();
        assert!(taken.shared.is_empty() && taken.given_up.is_empty());
    }

    #[test]
    fn what_is_kept_is_given_up_for_nobody() {
        let places = ClientPlaces::new(4);
        let many: Vec<ClientPlace> = (0..4).map(|_| places.take(source(1)).unwrap()).collect();
        many[0].keep();
        let other = places.take(source(2)).unwrap();
        assert_eq!(given_up(&many), [1]);
        // It is too late for that one.
        many[1].keep();
        for place in &many[2..] {
            place.keep();
        }
        other.keep();
        assert!(places.take(source(3)).is_none());
        drop(other);
        let third = places.take(source(3)).unwrap();
        assert_eq!(given_up(&many), [0; 0]);
        drop((many, third));
        assert!(places.lock().kept.is_empty());
    }
}
