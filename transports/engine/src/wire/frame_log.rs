//! Frames that many connections send, written down once.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bytes::Bytes;

/// The size of a chunk.
const CHUNK: usize = 64 * 1024;

/// Where a backend that frames its publications writes them down, so that each is encoded and copied
/// once, however many connections send it. The frames stand one behind the other in chunks of memory:
/// a connection that takes several in a row has them as one piece. A chunk lives as long as somebody
/// holds a part of it, so what has few subscribers is better sent by itself.
#[derive(Debug, Default)]
pub(crate) struct FrameLog {
    chunk: Arc<Chunk>,
    length: usize,
}

#[derive(Debug, Default)]
struct Chunk {
    /// Empty when the chunk is full.
    open: RwLock<Vec<u8>>,
    /// The contents at that time.
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
pub(crate) struct FrameRun {
    chunk: Arc<Chunk>,
    start: usize,
    end: usize,
}

/// The bytes of a run.
#[derive(Debug)]
pub(crate) enum FrameBytes<'a> {
    /// More may be written behind them: they have to be copied.
    Copy(&'a [u8]),
    /// The bytes can be sent from where they are.
    Share(Bytes),
}

impl FrameLog {
    /// Writes a frame down, which is small beside a chunk of 64 KiB.
    pub(crate) fn add(&mut self, frame: &[u8]) -> FrameRun {
        if self.length > 0 && self.length + frame.len() > CHUNK {
            self.chunk.fill();
            *self = Self::default();
        }
        let open = self.chunk.open.write();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() {
            open.reserve_exact(CHUNK.max(frame.len()));
        }
        let start = open.len();
        open.extend_from_slice(frame);
        self.length = open.len();
        FrameRun {
            chunk: Arc::clone(&self.chunk),
            start,
            end: self.length,
        }
    }
}

impl FrameRun {
    /// Takes in a run that stands directly behind this one. False when `next` does not.
    #[must_use = "a run that does not follow has to be kept apart"]
    pub(crate) fn extend(&mut self, next: &Self) -> bool {
        let follows = self.end == next.start && Arc::ptr_eq(&self.chunk, &next.chunk);
        if follows {
            self.end = next.end;
        }
        follows
    }

    /// Hands the frames to `into`, which does not wait: nothing is written to the log meanwhile.
    pub(crate) fn read<T>(&self, into: impl FnOnce(FrameBytes<'_>) -> T) -> T {
        let range = self.start..self.end;
        if let Some(full) = self.chunk.full.get() {
            return into(FrameBytes::Share(full.slice(range)));
        }
        let open = self
            .chunk
            .open
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        // It may have become full just now.
        match self.chunk.full.get() {
            Some(full) => into(FrameBytes::Share(full.slice(range))),
            None => into(FrameBytes::Copy(open.get(range).unwrap_or_default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_become_one_run_and_others_do_not() {
        let mut log = FrameLog::default();
        let runs: Vec<_> = (0..2000).map(|n| log.add(&[n as u8; 100])).collect();
        let mut first = runs[0].clone();
        assert!(!first.extend(&runs[2]));
        assert!(first.extend(&runs[1]) && first.extend(&runs[2]));
        assert_eq!(first.end - first.start, 300);
        let follows = |pair: &[FrameRun]| pair[0].clone().extend(&pair[1]);
        let breaks = runs.windows(2).filter(|pair| !follows(pair));
        assert_eq!(breaks.count(), 2000 / (CHUNK / 100));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(sizes in prop::collection::vec(0usize..100_000, 1..20)) {
            let mut log = FrameLog::default();
            let frame = |n: usize| vec![n as u8; sizes[n]];
            let runs: Vec<_> = (0..sizes.len()).map(|n| log.add(&frame(n))).collect();
            for (n, run) in runs.iter().enumerate() {
                let read = run.read(|bytes| match bytes {
                    FrameBytes::Copy(bytes) => bytes.to_vec(),
                    FrameBytes::Share(bytes) => bytes.to_vec(),
                });
                prop_assert_eq!(read, frame(n));
            }
        }
    }
}
