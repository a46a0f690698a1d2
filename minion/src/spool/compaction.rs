//! Rewrites the spool with what still counts.

use std::io;

use saline_messages::{MasterTime, Return};

use super::file::SpoolFile;
use super::index::{FileRange, SpooledJob};
use super::record::Record;
use super::{Spool, lock, scheduled};

/// The part of a job's state that a compaction keeps.
enum Kept {
    /// The job was seen.
    Seen,
    /// The job must not begin.
    Barred,
    /// The job was seen, and the record in this range.
    Record(FileRange),
    /// The same, and that a master refused the return in the record.
    Aside(FileRange),
    /// The job was seen, and a return that the disk did not take when it came.
    Return(Return),
}

impl Kept {
    fn of(state: &SpooledJob) -> Self {
        match state {
            SpooledJob::Running(Some(range)) | SpooledJob::Spooled(range, _) => {
                Self::Record(*range)
            }
            SpooledJob::Aside(range) => Self::Aside(*range),
            SpooledJob::Unspooled(returned) => Self::Return(returned.clone()),
            // Its record cannot be missing here: the file is locked while it is written.
            SpooledJob::Running(None) | SpooledJob::Done(_) => Self::Seen,
            SpooledJob::Barred => Self::Barred,
        }
    }
}

impl Spool {
    /// Writes a new file without the jobs that are done and expired at `now`, if that is known.
    pub(super) fn compact(&self, file: &mut SpoolFile, now: Option<MasterTime>) -> io::Result<()> {
        let mut index = lock(&self.index);
        index.prune(now);
        let entries: Vec<_> = index
            .entries
            .iter()
            .filter(|(jid, _)| !index.scheduled.contains_key(jid))
            .map(|(jid, entry)| (jid.clone(), entry.expires, Kept::of(&entry.state)))
            .collect();
        let scheduled: Vec<_> = index
            .scheduled
            .iter()
            .filter_map(|(jid, call)| {
                let state = index.entries.get(jid)?.state.clone();
                Some((jid.clone(), call.clone(), state))
            })
            .collect();
        let floor = index.floor.clone();
        let forgotten = Record::Forgotten {
            until: index.forgotten_until(),
            at: index.forgotten_at,
        };
        drop(index);
        let (start, reconciled) = (self.start_record(), self.start().reconciled);
        let mut moved = Vec::new();
        file.rewrite(|old, new| {
            new.append(&start, false)?;
            if reconciled {
                new.append(&Record::Reconciled, false)?;
            }
            if let Some(jid) = floor {
                new.append(&Record::Floor { jid }, false)?;
            }
            new.append(&forgotten, false)?;
            for (jid, expires, kept) in entries {
                if let Kept::Barred = kept {
                    new.append(&Record::Barred { jid, expires }, false)?;
                    continue;
                }
                let seen = Record::Seen {
                    jid: jid.clone(),
                    expires,
                };
                new.append(&seen, false)?;
                match kept {
                    Kept::Record(range) => {
                        let record = old.read(range)?;
                        moved.push((jid, new.append(&record, false)?));
                    }
                    Kept::Aside(range) => {
                        let record = old.read(range)?;
                        moved.push((jid.clone(), new.append(&record, false)?));
                        new.append(&Record::Aside { jid }, false)?;
                    }
                    Kept::Return(returned) => {
                        new.append(&Record::Return(returned), false)?;
                    }
                    Kept::Seen | Kept::Barred => {}
                }
            }
            for (jid, call, state) in scheduled {
                scheduled::copy((jid, call, state), old, new, &mut moved)?;
            }
            Ok(())
        })?;
        // No other thread moves records: the file is locked.
        let mut index = lock(&self.index);
        for (jid, new) in moved {
            if let Some(entry) = index.entries.get_mut(&jid) {
                match &mut entry.state {
                    SpooledJob::Running(range) => *range = Some(new),
                    SpooledJob::Spooled(range, _) | SpooledJob::Aside(range) => *range = new,
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
