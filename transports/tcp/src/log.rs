//! Publications as they are handed to connections: those that many take are written down once.

use saline_engine::{FrameBytes, FrameLog, FrameRun};

use crate::batch::Batch;
use crate::frame::Publication;

/// Larger frames stand by themselves, so that they are written from where they are.
const LARGEST: usize = 4 * 1024;

/// A publication as it is handed to connections.
#[derive(Debug)]
pub(crate) enum Logged {
    InLog(Run),
    Apart(Publication),
}

/// Publications side by side in the log.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    frames: FrameRun,
    /// How many.
    pub(crate) messages: usize,
    /// The bytes of their payloads.
    pub(crate) bytes: usize,
}

impl Logged {
    /// Writes a publication into `log`, unless it is large or has few takers, who would keep a whole
    /// chunk each.
    pub(crate) fn new(log: &mut FrameLog, publication: Publication, has_many_takers: bool) -> Self {
        let length = publication.head.len();
        if length > LARGEST || !publication.tail.is_empty() || !has_many_takers {
            return Self::Apart(publication);
        }
        Self::InLog(Run {
            frames: log.add(&publication.head),
            messages: 1,
            bytes: publication.size,
        })
    }

    /// The size of the payload.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::InLog(run) => run.bytes,
            Self::Apart(publication) => publication.size,
        }
    }
}

impl Run {
    /// Takes in a run that stands directly behind this one. False when `next` does not.
    pub(crate) fn extend(&mut self, next: &Self) -> bool {
        let follows = self.frames.extend(&next.frames);
        if follows {
            self.messages += next.messages;
            self.bytes += next.bytes;
        }
        follows
    }

    /// Adds its frames to `batch`.
    pub(crate) fn put_into(&self, batch: &mut Batch) {
        self.frames.read(|frames| match frames {
            FrameBytes::Copy(frames) => batch.copy(frames),
            FrameBytes::Share(frames) => batch.bytes(&frames),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn publication(size: usize) -> Publication {
        Publication::new(&"t".parse().unwrap(), Bytes::from(vec![1; size]))
    }

    #[test]
    fn runs_know_what_is_in_them() {
        let mut log = FrameLog::default();
        let mut run = |size| match Logged::new(&mut log, publication(size), true) {
            Logged::InLog(run) => run,
            Logged::Apart(_) => panic!("a small one"),
        };
        let mut first = run(100);
        assert!(first.extend(&run(50)));
        assert_eq!((first.messages, first.bytes), (2, 150));
        let mut batch = Batch::default();
        first.put_into(&mut batch);
        let length = publication(100).head.len() + publication(50).head.len();
        assert_eq!(batch.len(), length);
    }

    #[test]
    fn what_is_large_or_for_few_stands_by_itself() {
        let mut log = FrameLog::default();
        for (size, many) in [(100, false), (LARGEST, true), (100_000, true)] {
            let logged = Logged::new(&mut log, publication(size), many);
            assert!(matches!(logged, Logged::Apart(_)));
        }
    }
}
