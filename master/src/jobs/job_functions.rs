//! What a job calls, for reports of its returns. A minion tells them too, but what the job
//! says is the truth.

use std::collections::VecDeque;
use std::sync::Arc;

use rusqlite::params;
use saline_data::Packed;
use saline_messages::{Jid, PackedArguments, schedule_of_user};

use super::{JobStore, StoreError, jid, lock};
use crate::authorize::is_own_run;
use crate::disk::columns;

/// The number of jobs whose calls are remembered: thousands of minions return from one job at about the
/// same time.
const REMEMBERED: usize = 64;

/// The largest arguments that are read, in bytes.
const MAX_ARGUMENTS: i64 = 64 * 1024;

/// The function of a job and its arguments.
#[derive(Debug, PartialEq, Eq)]
pub struct JobFunction {
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments; none when they are larger than 64 KiB.
    pub arg: Option<PackedArguments>,
    /// The name of the job in the schedule of the minion that ran it by itself, if one did.
    pub schedule: Option<String>,
}

/// The calls of the jobs that were asked for last, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentFunctions(VecDeque<(i64, Arc<JobFunction>)>);

impl RecentFunctions {
    fn find(&self, job: i64) -> Option<Arc<JobFunction>> {
        let found = self.0.iter().rev().find(|(number, _)| *number == job);
        found.map(|(_, call)| Arc::clone(call))
    }

    fn remember(&mut self, job: i64, call: Arc<JobFunction>) {
        if self.find(job).is_some() {
            return;
        }
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((job, call));
    }
}

impl JobStore {
    /// Returns what a job calls; none if there is no such job.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub async fn function_of(&self, jid: &Jid) -> Result<Option<Arc<JobFunction>>, StoreError> {
        let Some(job) = jid::to_micros(jid) else {
            return Ok(None);
        };
        if let Some(call) = lock(&self.calls).find(job) {
            return Ok(Some(call));
        }
        let read = self.read(job, move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT fun, CASE WHEN length(arg) <= ?2 THEN arg END, user, operator FROM jobs
                 WHERE jid = ?1",
            )?;
            let mut found = statement.query(params![job, MAX_ARGUMENTS])?;
            let Some(row) = found.next()? else {
                return Ok(None);
            };
            let arg = match row.get_ref(1)? {
                rusqlite::types::ValueRef::Null => None,
                _ => Some(columns::blob(row, 1)?.to_vec()),
            };
            let is_own = is_own_run(columns::text(row, 3)?);
            let schedule = schedule_of_user(columns::text(row, 2)?).filter(|_| is_own);
            Ok(Some(JobFunction {
                schedule: schedule.map(str::to_owned),
                fun: columns::text(row, 0)?.to_owned(),
                arg: arg.map(|arg| PackedArguments::from_packed(Packed::from_bytes(arg))),
            }))
        });
        let Some(call) = read.await?.map(Arc::new) else {
            return Ok(None);
        };
        lock(&self.calls).remember(job, Arc::clone(&call));
        Ok(Some(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_the_last_jobs_are_remembered() {
        let mut calls = RecentFunctions::default();
        let call = |job: i64| {
            Arc::new(JobFunction {
                fun: format!("test.f{job}"),
                arg: None,
                schedule: None,
            })
        };
        for job in 0..200 {
            calls.remember(job, call(job));
            calls.remember(job, call(job));
        }
        assert_eq!(calls.0.len(), REMEMBERED);
        assert_eq!(calls.find(199), Some(call(199)));
        assert_eq!(calls.find(136), Some(call(136)));
        assert_eq!(calls.find(135), None);
    }
}
