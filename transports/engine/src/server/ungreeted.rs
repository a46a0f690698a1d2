//! The connections that have not greeted. Their number is bounded, and no source keeps the others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use saline_protocol::transport::{Limits, Source, SourcePlaces};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::CloseOnDrop;
use crate::lock;

/// Connections that may be in their handshake at once, beside those that stand. Where descriptors are bounded, they
/// have a quarter of them at most.
const MAX_UNGREETED: usize = 1024;

/// The connections that have not greeted, of all listeners of a server.
#[derive(Debug)]
pub(super) struct UngreetedTable {
    inner: Mutex<Inner>,
    /// How many there may be.
    most: usize,
}

/// Returns how many connections may be in their handshake at once.
fn most_ungreeted(limits: &Limits) -> usize {
    let share = limits.descriptors.map_or(MAX_UNGREETED, |all| all / 4);
    share.clamp(1, MAX_UNGREETED)
}

/// Returns how many connections a server may hold that have greeted: those in their handshake keep descriptors too.
pub(super) fn most_greeted(limits: &Limits) -> usize {
    let share = limits.descriptors.map_or(usize::MAX, |all| {
        all.saturating_sub(most_ungreeted(limits)).max(1)
    });
    limits.connections.min(share)
}

#[derive(Debug, Default)]
struct Inner {
    places: SourcePlaces<u64>,
    /// For each connection the token that ends it.
    cut: HashMap<u64, CancellationToken>,
    /// The number of the connection that was added last.
    last: u64,
}

impl UngreetedTable {
    /// Returns a table without connections.
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            inner: Mutex::default(),
            most: most_ungreeted(limits),
        }
    }

    /// Cuts the oldest connection of the source that has most. Returns false when there is none.
    pub(super) fn cut_oldest(&self) -> bool {
        let mut inner = lock(&self.inner);
        let Some(oldest) = inner.places.oldest_of_largest().copied() else {
            return false;
        };
        inner.places.release(&oldest);
        if let Some(cut) = inner.cut.remove(&oldest) {
            cut.cancel();
        }
        true
    }

    /// Takes a place for a connection of this source. When there is none left, the oldest connection of the
    /// source that has most is cut for it. Returns none when that source has no more than this one.
    fn take(&self, source: Source) -> Option<(u64, CancellationToken)> {
        let mut inner = lock(&self.inner);
        let number = inner.last + 1;
        let evicted = inner.places.take_one_of(self.most, number, source).ok()?;
        if let Some(cut) = evicted.and_then(|oldest| inner.cut.remove(&oldest)) {
            cut.cancel();
        }
        inner.last = number;
        let cut = CancellationToken::new();
        inner.cut.insert(number, cut.clone());
        Some((number, cut))
    }

    fn release(&self, number: u64) {
        let mut inner = lock(&self.inner);
        // One that was cut has no place any more.
        inner.places.release(&number);
        inner.cut.remove(&number);
        if inner.cut.is_empty() {
            inner.cut.shrink_to_fit();
        }
    }
}

/// A connection that has not greeted, and its place among them.
#[derive(Debug)]
pub(super) struct Ungreeted {
    pub(super) open: Arc<CloseOnDrop>,
    number: u64,
    cut: CancellationToken,
}

impl Ungreeted {
    /// Takes a place for a connection of this source; none when the others are not to give way for it.
    pub(super) fn new(open: &Arc<CloseOnDrop>, source: Source) -> Option<Self> {
        let (number, cut) = open.0.ungreeted.take(source)?;
        Some(Self {
            open: Arc::clone(open),
            number,
            cut,
        })
    }

    /// Resolves when the connection has to make room for one of another source.
    pub(super) fn cut(&self) -> WaitForCancellationFuture<'_> {
        self.cut.cancelled()
    }
}

impl Drop for Ungreeted {
    fn drop(&mut self) {
        self.open.0.ungreeted.release(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_no_more_descriptors_than_they_may() {
        let mut limits = Limits::default();
        assert_eq!(most_ungreeted(&limits), MAX_UNGREETED);
        assert_eq!(most_greeted(&limits), limits.connections);
        for all in [2, 3, 100, 272, 4096, 10_000] {
            limits.descriptors = Some(all);
            let (ungreeted, greeted) = (most_ungreeted(&limits), most_greeted(&limits));
            assert_eq!(ungreeted + greeted, all);
            assert!(ungreeted <= MAX_UNGREETED && greeted >= ungreeted);
        }
        limits.descriptors = Some(100);
        assert_eq!(most_ungreeted(&limits), 25);
        limits.descriptors = Some(1 << 20);
        assert_eq!(most_greeted(&limits), limits.connections);
    }

    #[test]
    fn without_a_descriptor_the_oldest_of_the_greediest_source_is_cut() {
        let table = UngreetedTable::new(&Limits::default());
        assert!(!table.cut_oldest());
        let (_, of_one) = table.take(Source::User(1)).unwrap();
        let (_, oldest) = table.take(Source::User(2)).unwrap();
        let (_, newest) = table.take(Source::User(2)).unwrap();
        assert!(table.cut_oldest());
        assert!(oldest.is_cancelled() && !newest.is_cancelled() && !of_one.is_cancelled());
    }

    #[test]
    fn the_source_that_has_most_gives_way_and_nobody_for_another_of_its_own() {
        let mut limits = Limits::default();
        limits.descriptors = Some(8);
        let table = UngreetedTable::new(&limits);
        let (first, oldest) = table.take(Source::User(1)).unwrap();
        let (second, newest) = table.take(Source::User(1)).unwrap();
        assert!(table.take(Source::User(1)).is_none());
        let (third, other) = table.take(Source::User(2)).unwrap();
        assert!(oldest.is_cancelled() && !newest.is_cancelled() && !other.is_cancelled());
        assert_eq!([first, second, third], [1, 2, 3]);
        // It was cut, so that its end frees no place.
        table.release(first);
        assert!(table.take(Source::User(1)).is_none());
        table.release(second);
        let (_, again) = table.take(Source::User(1)).unwrap();
        assert!(!again.is_cancelled() && !other.is_cancelled());
    }
}
