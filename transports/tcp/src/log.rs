//! Publications that many connections take, written down once.
//!
//! Their frames stand one behind the other in chunks of memory, so that a connection which takes
//! several in a row has them as one piece, however many there are. A chunk lives as long as some
//! connection has not written its part.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bytes::Bytes;

use crate::batch::Batch;
use crate::frame::Publication;

/// The size of a chunk.
const CHUNK: usize = 64 * 1024;
/// Larger frames stand by themselves, so that they are written from where they are.
const LARGEST: usize = 4 * 1024;

/// Where frames are written down.
#[derive(Debug, Default)]
pub(crate) struct Log {
    chunk: Arc<Chunk>,
    length: usize,
}

#[derive(Debug, Default)]
struct Chunk {
    /// Empty when the chunk is full.
    open: RwLock<Vec<u8>>,
    /// What was in it then.
    full: OnceLock<Bytes>,
}

impl Chunk {
    fn fill(&self) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        // Set before the lock is let go, so that a reader finds one or the other.
        let _ = self.full.set(std::mem::take(&mut *open).into());
    }
}

/// Frames side by side in the log.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    chunk: Arc<Chunk>,
    start: usize,
    end: usize,
    /// How many.
    pub(crate) messages: usize,
    /// The bytes of their payloads.
    pub(crate) bytes: usize,
}

/// A publication as it is handed to connections.
#[derive(Debug)]
pub(crate) enum Logged {
    InLog(Run),
    Apart(Publication),
}

impl Logged {
    /// The size of the payload.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::InLog(run) => run.bytes,
            Self::Apart(publication) => publication.size,
        }
    }
}

impl Log {
    /// Writes a publication down, unless it is large or has few takers, who would keep a whole chunk
    /// each.
    pub(crate) fn add(&mut self, publication: Publication, has_many_takers: bool) -> Logged {
        let length = publication.head.len();
        if length > LARGEST || !publication.tail.is_empty() || !has_many_takers {
            return Logged::Apart(publication);
        }
        if self.length + length > CHUNK {
            self.chunk.fill();
            *self = Self::default();
        }
        let mut chunk = self
            .chunk
            .open
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if chunk.is_empty() {
            chunk.reserve_exact(CHUNK);
        }
        let start = chunk.len();
        chunk.extend_from_slice(&publication.head);
        self.length = chunk.len();
        Logged::InLog(Run {
            chunk: Arc::clone(&self.chunk),
            start,
            end: self.length,
            messages: 1,
            bytes: publication.size,
        })
    }
}

impl Run {
    /// Whether `next` stands directly behind this one.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        self.end == next.start && Arc::ptr_eq(&self.chunk, &next.chunk)
    }

    /// Takes in a run that stands directly behind this one.
    pub(crate) fn extend(&mut self, next: &Self) {
        self.end = next.end;
        self.messages += next.messages;
        self.bytes += next.bytes;
    }

    /// Adds its frames to `batch`.
    pub(crate) fn put_into(&self, batch: &mut Batch) {
        if self.chunk.full.get().is_none() {
            let open = self.chunk.open.read();
            let open = open.unwrap_or_else(PoisonError::into_inner);
            if let Some(frames) = open.get(self.start..self.end) {
                batch.copy(frames);
                return;
            }
        }
        if let Some(full) = self.chunk.full.get() {
            batch.bytes(&full.slice(self.start..self.end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(size: usize) -> Publication {
        Publication::new(&"t".parse().unwrap(), Bytes::from(vec![1; size]))
    }

    #[test]
    fn neighbours_become_one_run_and_others_do_not() {
        let mut log = Log::default();
        let mut runs = Vec::new();
        for _ in 0..2000 {
            match log.add(publication(100), true) {
                Logged::InLog(run) => runs.push(run),
                Logged::Apart(_) => panic!("a small one"),
            }
        }
        let mut first = runs[0].clone();
        assert!(!first.is_followed_by(&runs[2]));
        for next in &runs[1..3] {
            assert!(first.is_followed_by(next));
            first.extend(next);
        }
        assert_eq!((first.messages, first.bytes), (3, 300));
        let mut batch = Batch::default();
        first.put_into(&mut batch);
        assert_eq!(batch.len(), 3 * publication(100).head.len());
        // The last chunk is still written to, the first is full.
        runs[1999].put_into(&mut batch);
        assert_eq!(batch.len(), 4 * publication(100).head.len());
        let breaks = runs
            .windows(2)
            .filter(|pair| !pair[0].is_followed_by(&pair[1]));
        assert_eq!(breaks.count(), 2000 * publication(100).head.len() / CHUNK);
    }

    #[test]
    fn what_is_large_or_for_few_stands_by_itself() {
        let mut log = Log::default();
        for (size, many) in [(100, false), (LARGEST, true), (100_000, true)] {
            assert!(matches!(log.add(publication(size), many), Logged::Apart(_)));
        }
    }
}
