//! Jobs of the minion's own schedule in the spool. The master does not know them before it has their returns, so they wait
//! here while it is away, and they are bounded: nobody else takes from a spool that a schedule fills.

use std::io;

use saline_messages::{Jid, Return, ScheduledRun};
use saline_modules::job::ScheduledCall;

use super::file::SpoolFile;
use super::index::{FileRange, Index, SpooledJob};
use super::record::Record;
use super::{Spool, lock};

/// The most returns of scheduled jobs that wait for the master. Beyond it the oldest are dropped.
pub(super) const MAX_WAITING: usize = 1_000;

/// The most that these returns may come to, in bytes.
pub(super) const MAX_WAITING_BYTES: u64 = 64 * 1024 * 1024;

impl Spool {
    /// Notes that a job of the minion's own schedule begins. It runs also when the disk does not take that, since it may be
    /// what makes room: then nothing is returned for it if the minion is killed.
    pub fn begin_scheduled(&self, jid: &Jid, call: ScheduledCall) {
        let mut file = lock(&self.file);
        self.make_room(&mut file);
        let record = Record::Scheduled {
            jid: jid.clone(),
            call: call.clone(),
        };
        let range = file.append(&record, true).inspect_err(|error| {
            tracing::warn!(
                "scheduled job {}: its beginning is not noted: {error}",
                call.run.schedule
            );
        });
        let mut index = lock(&self.index);
        index.set(jid, Some(0), SpooledJob::Running(range.ok()));
        index.scheduled.insert(jid.clone(), call);
    }

    /// Notes the beginning of a scheduled job that the disk did not take when it began: without that its return would be
    /// taken after a restart for the one of a published job.
    pub(super) fn note_scheduled(&self, file: &mut SpoolFile, jid: &Jid) -> io::Result<()> {
        let call = {
            let index = lock(&self.index);
            let entry = index.entries.get(jid);
            match entry.map(|entry| &entry.state) {
                Some(SpooledJob::Running(None)) => index.scheduled.get(jid).cloned(),
                _ => None,
            }
        };
        let Some(call) = call else { return Ok(()) };
        let jid = jid.clone();
        file.append(&Record::Scheduled { jid, call }, true)
            .map(drop)
    }

    /// Waits until there may be a return of the schedule to send.
    ///
    /// # Cancel safety
    /// A wake-up is not lost when the future is dropped.
    pub async fn scheduled_returned(&self) {
        self.scheduled_returned.notified().await;
    }

    /// Takes the oldest job of the schedule whose return is to be sent. The caller gives it back with
    /// [`put_back`](Self::put_back), or finishes it with [`done`](Self::done).
    pub fn take_unsent_scheduled(&self) -> Option<(Jid, ScheduledRun)> {
        lock(&self.index).take_unsent_scheduled()
    }

    /// Whether a job is one of the schedule whose return the master is not to have.
    pub(super) fn is_unwanted(&self, jid: &Jid) -> bool {
        let index = lock(&self.index);
        index
            .scheduled
            .get(jid)
            .is_some_and(|call| !call.return_job)
    }

    /// Forgets a job of the schedule that has ended.
    pub(super) fn forget_scheduled(&self, file: &mut SpoolFile, jid: &Jid) {
        if let Err(error) = file.append(&Record::Done { jid: jid.clone() }, true) {
            // After a restart it counts as interrupted, which is forgotten too.
            tracing::warn!("job {jid}: its end is not noted in the spool: {error}");
        }
        lock(&self.index).remove(jid);
        self.compact_if_grown(file, None);
    }

    /// Returns how many returns of the schedule wait for the master.
    pub fn scheduled_waiting(&self) -> usize {
        waiting(&lock(&self.index)).len()
    }

    /// Returns how many returns of scheduled jobs were dropped, since too many waited for the master.
    pub fn dropped(&self) -> u64 {
        lock(&self.index).dropped
    }

    /// Drops the oldest returns until there is room for one more.
    fn make_room(&self, file: &mut SpoolFile) {
        let mut dropped = Vec::new();
        {
            let mut index = lock(&self.index);
            let waiting: Vec<(Jid, u64)> = waiting(&index);
            let mut bytes: u64 = waiting.iter().map(|(_, size)| size).sum();
            let mut count = waiting.len();
            for (jid, size) in waiting {
                if count < MAX_WAITING && bytes < MAX_WAITING_BYTES {
                    break;
                }
                if let Some(call) = index.scheduled.get(&jid) {
                    tracing::warn!(
                        "scheduled job {}: a return is dropped, since {count} wait for the master",
                        call.run.schedule
                    );
                }
                index.remove(&jid);
                index.dropped += 1;
                count -= 1;
                bytes -= size;
                dropped.push(Record::Done { jid });
            }
        }
        if !dropped.is_empty()
            && let Err(error) = file.append_all(dropped)
        {
            // After a restart they are sent, if the master takes them.
            tracing::warn!("cannot note in the spool that returns were dropped: {error}");
        }
    }
}

impl Index {
    /// Logs that a job has returned, which is of the minion's own schedule if it has a name there.
    pub(super) fn log_return(&self, jid: &Jid, retcode: i64) {
        let call = self.scheduled.get(jid);
        match (call.map(|call| &call.run.schedule), retcode) {
            (None, _) => tracing::info!("job {jid}: returned, retcode {retcode}"),
            (Some(name), 0) => tracing::info!("job {jid}: scheduled job {name} has ended"),
            (Some(name), _) => {
                tracing::warn!("job {jid}: scheduled job {name} failed, retcode {retcode}");
            }
        }
    }
}

/// Returns the scheduled jobs that have returned, the oldest first, with the sizes of their returns.
fn waiting(index: &Index) -> Vec<(Jid, u64)> {
    let size = |state: &SpooledJob| match state {
        SpooledJob::Spooled(range, _) | SpooledJob::Aside(range) => Some(range.length),
        SpooledJob::Unspooled(Return { payload, .. }) => Some(payload.as_bytes().len() as u64),
        SpooledJob::Running(_) | SpooledJob::Done(_) | SpooledJob::Barred => None,
    };
    let jobs = index.scheduled.keys();
    jobs.filter_map(|jid| Some((jid.clone(), size(&index.entries.get(jid)?.state)?)))
        .collect()
}

/// Copies what still counts of a scheduled job into a new file.
pub(super) fn copy(
    (jid, call, state): (Jid, ScheduledCall, SpooledJob),
    old: &mut SpoolFile,
    new: &mut SpoolFile,
    moved: &mut Vec<(Jid, FileRange)>,
) -> io::Result<()> {
    let begun = Record::Scheduled {
        jid: jid.clone(),
        call,
    };
    let begun = new.append(&begun, false)?;
    match state {
        SpooledJob::Running(_) => moved.push((jid, begun)),
        SpooledJob::Spooled(range, _) => {
            let record = old.read(range)?;
            moved.push((jid, new.append(&record, false)?));
        }
        SpooledJob::Aside(range) => {
            let record = old.read(range)?;
            moved.push((jid.clone(), new.append(&record, false)?));
            new.append(&Record::Aside { jid }, false)?;
        }
        SpooledJob::Unspooled(returned) => {
            new.append(&Record::Return(returned), false)?;
        }
        SpooledJob::Done(_) | SpooledJob::Barred => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use saline_data::Value;
    use saline_messages::{Arguments, Known, RETCODE_INTERRUPTED, RequestId};
    use saline_protocol::transport::Clock;

    use super::*;
    use crate::own_jid::OwnJids;

    fn call(number: u8) -> ScheduledCall {
        ScheduledCall {
            run: ScheduledRun {
                request_id: RequestId([number; 16]),
                schedule: format!("job {number}"),
                fun: "test.ping".to_owned(),
                arg: Arguments::default().pack(),
                metadata: None,
            },
            return_job: true,
        }
    }

    fn returned(jid: &Jid) -> Return {
        Return {
            jid: jid.clone(),
            fun: "test.ping".to_owned(),
            retcode: 0,
            success: true,
            payload: saline_data::Packed::pack(&Value::Bool(true)),
        }
    }

    #[test]
    fn scheduled_jobs_are_kept_over_a_kill_and_a_compaction_until_they_are_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool.log");
        let jids = OwnJids::default();
        let [ended, cut, done] = [1, 2, 3].map(|number| (jids.next(Clock), call(number)));
        let spool = Spool::open(path.clone(), false).unwrap();
        for (jid, call) in [&ended, &cut, &done] {
            spool.begin_scheduled(jid, call.clone());
        }
        spool.finish(returned(&ended.0));
        spool.finish(returned(&done.0));
        spool.done(std::slice::from_ref(&done.0), None, 1);
        spool.compact(&mut lock(&spool.file), None).unwrap();
        assert_eq!(
            spool.take_unsent(),
            None,
            "none is sent as the return of a published job"
        );
        assert_eq!(spool.unacknowledged(), 0);
        drop(spool);

        let spool = Spool::open(path, false).unwrap();
        assert_eq!(spool.scheduled_waiting(), 2);
        let ended = (ended.0, ended.1.run);
        assert_eq!(spool.take_unsent_scheduled(), Some(ended.clone()));
        let (jid, run) = spool.take_unsent_scheduled().unwrap();
        assert_eq!((&jid, &run), (&cut.0, &cut.1.run));
        let interrupted = spool.read(&jid).unwrap().unwrap();
        assert_eq!(interrupted.retcode, RETCODE_INTERRUPTED);
        assert_eq!(spool.take_unsent_scheduled(), None);
        spool.put_back(&ended.0);
        assert_eq!(spool.take_unsent_scheduled(), Some(ended.clone()));
        assert_eq!(spool.known(&done.0), Known::No);
        // Nothing of it is told to a master that asks what was begun.
        assert!(spool.settle(0, u64::MAX, 1, 100).begun.is_empty());
    }

    #[test]
    fn a_scheduled_job_that_makes_room_on_a_full_disk_is_sent_as_one_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool.log");
        let spool = Spool::open(path.clone(), false).unwrap();
        let (jid, call) = (OwnJids::default().next(Clock), call(1));
        // On a device that takes nothing, until the job has made room.
        let room = std::mem::replace(
            &mut *lock(&spool.file),
            SpoolFile::new("/dev/full".into(), false),
        );
        spool.begin_scheduled(&jid, call.clone());
        *lock(&spool.file) = room;
        assert!(spool.finish(returned(&jid)));
        drop(spool);

        let spool = Spool::open(path, false).unwrap();
        assert_eq!(spool.take_unsent(), None);
        assert_eq!(spool.take_unsent_scheduled(), Some((jid.clone(), call.run)));
        assert_eq!(spool.read(&jid).unwrap(), Some(returned(&jid)));
    }

    #[test]
    fn a_return_that_nobody_wants_is_forgotten_whoever_finds_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool.log");
        let jids = OwnJids::default();
        let unwanted = ScheduledCall {
            return_job: false,
            ..call(1)
        };
        let [ended, cut] = [1, 2].map(|_| jids.next(Clock));
        let spool = Spool::open(path.clone(), false).unwrap();
        for jid in [&ended, &cut] {
            spool.begin_scheduled(jid, unwanted.clone());
        }
        assert!(spool.finish(returned(&ended)));
        assert_eq!(spool.known(&ended), Known::No);
        assert_eq!(spool.known(&cut), Known::Running);
        drop(spool);
        // The other one was interrupted, which nobody wants to know either.
        let spool = Spool::open(path, false).unwrap();
        assert_eq!(spool.known(&cut), Known::No);
        assert_eq!(spool.take_unsent_scheduled(), None);
        assert_eq!(spool.take_unsent(), None);
    }

    #[test]
    fn a_refused_return_is_set_aside_until_somebody_forgets_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool.log");
        let jid = OwnJids::default().next(Clock);
        let spool = Spool::open(path.clone(), false).unwrap();
        spool.begin_scheduled(&jid, call(1));
        spool.finish(returned(&jid));
        spool.set_aside(&jid);
        spool.compact(&mut lock(&spool.file), None).unwrap();
        drop(spool);
        let spool = Spool::open(path.clone(), false).unwrap();
        assert_eq!(spool.take_unsent_scheduled(), None);
        assert_eq!(spool.aside(), std::slice::from_ref(&jid));
        assert!(spool.forget_refused(&jid).unwrap());
        spool.compact(&mut lock(&spool.file), None).unwrap();
        drop(spool);
        let spool = Spool::open(path, false).unwrap();
        assert_eq!(spool.known(&jid), Known::No);
    }

    #[test]
    fn the_oldest_returns_are_dropped_when_too_many_wait() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().join("spool.log"), false).unwrap();
        let jids = OwnJids::default();
        let mut all = Vec::new();
        for _ in 0..MAX_WAITING + 5 {
            let jid = jids.next(Clock);
            spool.begin_scheduled(&jid, call(1));
            spool.finish(returned(&jid));
            all.push(jid);
        }
        assert_eq!(
            (spool.scheduled_waiting(), spool.dropped()),
            (MAX_WAITING, 5)
        );
        let first = spool.take_unsent_scheduled().unwrap();
        assert_eq!(first.0, all[5]);
    }
}
