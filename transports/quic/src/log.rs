//! Publications that many connections take, written down once.
//!
//! Their frames stand one behind the other in chunks of memory, so that a connection which takes
//! several in a row has them as one piece, however many there are. A chunk lives as long as some
//! connection has not written its part.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use saline_protocol::transport::Topic;

use crate::batch::Batch;
use crate::frame::{COPIED, LARGE, message_head};

/// The size of a chunk.
const CHUNK: usize = 64 * 1024;

/// What has at most so many takers is not written down, because each would keep a whole chunk.
const FEW: usize = 4;

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
}

/// A publication, encoded once for all who get it.
#[derive(Debug)]
pub(crate) enum Encoded {
    /// A frame in the log.
    Logged(Run),
    /// A frame by itself.
    Apart(Bytes),
    /// The topic, which is announced in its place, and the message, which travels alone.
    Large(Bytes, Bytes, Bytes),
}

impl Log {
    /// Encodes a publication for so many takers.
    pub(crate) fn encode(&mut self, topic: &Topic, payload: &Bytes, takers: usize) -> Encoded {
        let mut frame = message_head(topic, payload.len());
        if payload.len() > LARGE {
            let name = Bytes::copy_from_slice(topic.as_str().as_bytes());
            return Encoded::Large(name, frame.freeze(), payload.clone());
        }
        frame.extend_from_slice(payload);
        if takers <= FEW || frame.len() > COPIED {
            return Encoded::Apart(frame.freeze());
        }
        Encoded::Logged(self.add(&frame))
    }

    fn add(&mut self, frame: &[u8]) -> Run {
        if self.length + frame.len() > CHUNK {
            self.chunk.fill();
            *self = Self::default();
        }
        let open = self.chunk.open.write();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() {
            open.reserve_exact(CHUNK);
        }
        let start = open.len();
        open.extend_from_slice(frame);
        self.length = open.len();
        Run {
            chunk: Arc::clone(&self.chunk),
            start,
            end: self.length,
        }
    }
}

impl Run {
    /// How many bytes they are.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Takes in a run that stands directly behind this one. False when `next` does not.
    pub(crate) fn extend(&mut self, next: &Self) -> bool {
        let follows = self.end == next.start && Arc::ptr_eq(&self.chunk, &next.chunk);
        if follows {
            self.end = next.end;
        }
        follows
    }

    /// Adds its frames to `batch`.
    pub(crate) fn put_into(&self, batch: &mut Batch) {
        if self.chunk.full.get().is_none() {
            let open = self.chunk.open.read();
            let open = open.unwrap_or_else(PoisonError::into_inner);
            if let Some(frames) = open.get(self.start..self.end) {
                return batch.copy(frames);
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

    fn runs(log: &mut Log, count: usize) -> Vec<Run> {
        let topic = "t".parse().unwrap();
        let encode = |n| match log.encode(&topic, &Bytes::from(vec![n as u8; 100]), FEW + 1) {
            Encoded::Logged(run) => run,
            other => panic!("a small one is {other:?}"),
        };
        (0..count).map(encode).collect()
    }

    #[test]
    fn neighbours_become_one_run_and_others_do_not() {
        let runs = runs(&mut Log::default(), 2000);
        let length = runs[0].len();
        let mut first = runs[0].clone();
        assert!(!first.extend(&runs[2]));
        assert!(first.extend(&runs[1]) && first.extend(&runs[2]));
        let mut batch = Batch::default();
        first.put_into(&mut batch);
        assert_eq!(batch.len(), 3 * length);
        // The last chunk is still written to, the first is full.
        runs[1999].put_into(&mut batch);
        assert_eq!(batch.len(), 4 * length);
        let breaks = runs
            .windows(2)
            .filter(|pair| !pair[0].clone().extend(&pair[1]));
        assert_eq!(breaks.count(), 2000 / (CHUNK / length));
        let bytes = batch.take().concat();
        let last = bytes.chunks(length).map(|frame| frame[length - 1]);
        assert_eq!(last.collect::<Vec<_>>(), [0, 1, 2, 1999_usize as u8]);
    }

    #[test]
    fn what_is_large_or_for_few_stands_by_itself() {
        let (mut log, topic) = (Log::default(), "t".parse().unwrap());
        let mut encode = |size, takers| log.encode(&topic, &Bytes::from(vec![1; size]), takers);
        assert!(matches!(encode(100, FEW), Encoded::Apart(_)));
        assert!(matches!(encode(COPIED, FEW + 1), Encoded::Apart(_)));
        assert!(matches!(encode(LARGE + 1, FEW + 1), Encoded::Large(..)));
    }
}
