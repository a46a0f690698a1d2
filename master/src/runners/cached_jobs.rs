//! Jobs that the job store has no more, from the database that `master_job_cache` names.

use std::collections::HashSet;
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_functions::Failure;
use saline_messages::{Jid, MinionId, PackedArguments, StoredReturn};
use saline_returners::{CachedJob, CachedReturn, JobCache, OpenJobCache};

use super::error::no_such_job;
use super::run::Run;
use super::shown_returns::ShownReturns;
use super::task::MAX_RETURN;
use crate::jid;
use crate::jobs::{FoundJob, FoundJobs, JobSearch, listed_arguments};

/// How long the database may take for a run.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long before the end of the run the database is given up.
const BEFORE_END: Duration = Duration::from_millis(500);

/// The size in bytes of what one search finds, from which it ends.
const FOUND_BYTES: usize = 32 * 1024 * 1024;

/// A job of the database, and what its minions returned.
#[derive(Debug)]
pub(super) struct WholeCachedJob {
    pub(super) job: FoundJob,
    pub(super) minions: Vec<String>,
    /// By minion.
    pub(super) returns: Vec<StoredReturn>,
}

/// Returns a job that the job store does not have. The notes of the run say where it is from and who has not returned.
///
/// # Errors
/// When the database has no such job, or cannot be read; and the refusal of a job of another owner.
pub(super) async fn whole(run: &Run, jid: &Jid) -> Result<WholeCachedJob, Failure> {
    let Some(cache) = &run.parts.job_cache else {
        return Err(no_such_job(jid));
    };
    let name = cache.name();
    let read = within(run, async {
        let mut open = cache.open().await?;
        let Some(cached) = open.job(jid.as_str()).await? else {
            return Ok(None);
        };
        // Nothing is read of what others ordered.
        if let Err(refusal) = run.check_owner(&cached.operator) {
            return Ok(Some(Err(refusal)));
        }
        let returns = returns(run, &mut open, jid).await?;
        Ok(Some(Ok((cached, returns))))
    });
    let found = read.await.map_err(|why| {
        Failure::Execution(format!(
            "job {jid} is not in the store of this master, and the job cache {name} cannot be read: {why}"
        ))
    })?;
    let (mut cached, returns) = found.ok_or_else(|| no_such_job(jid))??;
    run.note(format!(
        "job {jid} is from the job cache {name}: the store of this master has it no more"
    ));
    if cached.minions.is_empty() {
        // Salt's returner names none.
        let returned = returns.iter().map(|one| one.minion.to_string());
        cached.minions = returned.collect();
    }
    let returned: HashSet<&str> = returns.iter().map(|one| one.minion.as_str()).collect();
    for minion in &cached.minions {
        if !returned.contains(minion.as_str()) {
            run.note(format!(
                "{minion}: the job cache {name} has no return of it"
            ));
        }
    }
    Ok(WholeCachedJob {
        minions: std::mem::take(&mut cached.minions),
        job: found_job(jid.clone(), cached, false),
        returns,
    })
}

/// Adds the jobs of the database that the job store does not have to those that a search found there.
pub(super) async fn add_found(run: &Run, search: &JobSearch, found: &mut FoundJobs) {
    // Metadata are not delivered.
    let Some(cache) = run
        .parts
        .job_cache
        .as_ref()
        .filter(|_| search.metadata.is_empty())
    else {
        return;
    };
    match within(run, search_cache(cache, search)).await {
        Ok(cached) => {
            let known: HashSet<Jid> = found.jobs.iter().map(|job| job.jid.clone()).collect();
            let others = cached.jobs.into_iter();
            found.jobs.extend(others.filter(|job| !known.contains(&job.jid)));
            found.jobs.sort_by(|a, b| b.jid.cmp(&a.jid));
            found.is_cut |= cached.is_cut || found.jobs.len() > search.most;
            found.jobs.truncate(search.most);
        }
        Err(why) => run.note(format!(
            "the jobs that the store of this master has no more are missing, since the job cache {} cannot be read: {why}",
            cache.name()
        )),
    }
}

/// Returns the newest jobs that a search is about.
async fn search_cache(cache: &JobCache, search: &JobSearch) -> Result<FoundJobs, String> {
    let mut open = cache.open().await?;
    let mut found = FoundJobs::default();
    let from = jid::from_micros(search.from.max(0));
    // The first jid that is too high.
    let mut before = jid::from_micros(search.until.saturating_add(1)).to_string();
    let mut bytes = 0;
    loop {
        let page = open.jobs(from.as_str(), &before).await?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        before.clone_from(&last.jid);
        for cached in page {
            let wanted =
                search.wants_of(&cached.operator) && search.wants(&cached.fun, &cached.target);
            // A database may hold what others wrote there.
            let Some(jid) = Jid::parse(&cached.jid).ok().filter(|_| wanted) else {
                continue;
            };
            let job = found_job(jid, cached, true);
            if found.jobs.len() >= search.most || bytes >= FOUND_BYTES {
                found.is_cut = true;
                return Ok(found);
            }
            bytes += job.size();
            found.jobs.push(job);
        }
    }
}

/// Reads the returns of a job, by minion. The largest ones are replaced by their sizes where all of them are too large for one
/// answer.
async fn returns(
    run: &Run,
    open: &mut OpenJobCache,
    jid: &Jid,
) -> Result<Vec<StoredReturn>, String> {
    let (mut all, mut after) = (Vec::new(), String::new());
    let mut shown = ShownReturns::default();
    loop {
        let page = open.returns(jid.as_str(), &after).await?;
        let Some(last) = page.last() else {
            break;
        };
        after.clone_from(&last.minion);
        for cached in page {
            let Some(stored) = stored_return(run, cached) else {
                continue;
            };
            shown.add(&stored, all.len());
            all.push(stored);
        }
        shown.replace(run, &mut all, MAX_RETURN);
    }
    all.sort_by(|a: &StoredReturn, b| a.minion.cmp(&b.minion));
    Ok(all)
}

fn stored_return(run: &Run, cached: CachedReturn) -> Option<StoredReturn> {
    // A database may hold what others wrote there.
    let minion = MinionId::parse(&cached.minion).ok()?;
    let value = cached.value.unwrap_or_else(|why| {
        run.note(format!(
            "{minion}: its value is not in the job cache: {why}"
        ));
        Value::Null
    });
    Some(StoredReturn {
        receipt: 0,
        minion,
        retcode: cached.retcode,
        success: cached.success,
        payload: Packed::pack(&value),
    })
}

fn found_job(jid: Jid, cached: CachedJob, is_listed: bool) -> FoundJob {
    let arg = match cached.arg {
        Value::Null => Value::List(Vec::new()),
        arg => arg,
    };
    let arg = Packed::pack(&arg);
    FoundJob {
        jid,
        arg: match is_listed {
            true => listed_arguments(arg.as_bytes()),
            false => PackedArguments::from_packed(arg),
        },
        fun: cached.fun,
        target: cached.target,
        target_kind: cached.target_kind,
        user: cached.user,
        operator: cached.operator,
        metadata: None,
    }
}

/// Waits for the database, for a while, and until shortly before the end of the run.
async fn within<T>(
    run: &Run,
    reading: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let clock = run.parts.clock();
    let end = run.deadline.checked_sub(BEFORE_END).unwrap_or(run.deadline);
    let read = clock.deadline(clock.after(TIMEOUT).min(end), reading);
    read.await
        .unwrap_or_else(|_| Err("it does not answer".to_owned()))
}
