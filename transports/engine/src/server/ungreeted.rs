//! The connections that have not greeted. Their number is bounded, and no source keeps the others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use saline_protocol::transport::{Source, SourcePlaces};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::CloseOnDrop;
use crate::lock;

/// Connections that may be in their handshake at once, beside those that stand.
const MAX_UNGREETED: usize = 1024;

/// The connections that have not greeted, of all listeners of a server.
#[derive(Debug, Default)]
pub(super) struct UngreetedTable(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    places: SourcePlaces<u64>,
    /// For each connection the token that ends it.
    cut: HashMap<u64, CancellationToken>,
    /// The number of the connection that was added last.
    last: u64,
}

impl UngreetedTable {
    /// Takes a place for a connection of this source. When there is none left, the oldest connection of the
    /// source that has most is cut for it. Returns none when that source has no more than this one.
    fn take(&self, source: Source) -> Option<(u64, CancellationToken)> {
        let mut inner = lock(&self.0);
        let number = inner.last + 1;
        let evicted = inner
            .places
            .take_one_of(MAX_UNGREETED, number, source)
            .ok()?;
        if let Some(cut) = evicted.and_then(|oldest| inner.cut.remove(&oldest)) {
            cut.cancel();
        }
        inner.last = number;
        let cut = CancellationToken::new();
        inner.cut.insert(number, cut.clone());
        Some((number, cut))
    }

    fn release(&self, number: u64) {
        let mut inner = lock(&self.0);
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
