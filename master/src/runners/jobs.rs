//! `jobs`: jobs of the store and runs of this master.

use saline_functions::{Failure, Mapping, function, parameters};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_messages::{Jid, MinionId, MinionJobState};
use saline_targeting::Target;

use super::ask_minions::ask_minions;
use super::cached_jobs;
use super::error::{is_runner, no_such_job, no_such_run};
use super::job_filters::{Globs, SearchTime};
use super::job_report::{
    self, State, arguments as shown_arguments, instance, master_name, whole_job,
};
use super::run::Run;
use super::{Functions, Returned};
use crate::jobs::{ActiveJob, FoundJob, JobSearch};
use crate::orders::OrderError;

type Result<T, E = Failure> = std::result::Result<T, E>;

/// How long before its end a run returns what it has come to.
const BEFORE_END: Duration = Duration::from_millis(500);

/// The largest number of jobs in one list.
const MAX_LISTED: usize = 50_000;

pub(super) const FUNCTIONS: Functions = &[
    &ACTIVE,
    &CANCEL,
    &EXIT_SUCCESS,
    &KILL,
    &LAST_RUN,
    &LIST_JOB,
    &LIST_JOBS,
    &LOOKUP_JID,
    &MASTER,
    &PRINT_JOB,
];

/// Returns the jobs that minions run now, by jid, with the minions that run them (`Running`).
///
/// pids
///     By default the minions that run jobs and are present are asked for the process id of each job: that of its command,
///     or of the minion while the job has none. The run waits for them for at most the master's `timeout`. A process id
///     that is not known is null. `False` asks no minion.
///
/// CLI Example:
///
///     saline-run jobs.active
///     saline-run jobs.active pids=False
#[function]
async fn active(run: &Run, #[default(true)] pids: bool) -> Result<Packed> {
    let (mut jobs, all) = (Vec::new(), run.parts.jobs.active());
    // To ask minions is a job for all of them.
    let pids = match pids && run.sees_all() {
        true => running_pids(run, &all).await?,
        false => Pids::default(),
    };
    for active in all {
        // It may have been pruned meanwhile.
        let Some(stored) = run.parts.jobs.job(&active.jid).await? else {
            continue;
        };
        if !run.sees(&stored.operator) {
            continue;
        }
        let metadata = run.parts.jobs.metadata(&active.jid).await?;
        let mut entries = instance(&FoundJob {
            jid: active.jid.clone(),
            fun: stored.job.fun,
            arg: stored.job.arg,
            target: stored.job.target.expression,
            target_kind: stored.job.target.kind.name().to_owned(),
            user: stored.job.user,
            operator: stored.operator,
            metadata,
        });
        let running = active.running.iter().map(|id| {
            let pid = pids.get(&(active.jid.clone(), id.clone()));
            Value::map([(id.as_str(), pid.cloned().unwrap_or_default())])
        });
        entries.push((
            "Running".to_owned(),
            Packed::pack(&Value::List(running.collect())),
        ));
        jobs.push((active.jid.to_string(), Packed::map(entries)));
    }
    Ok(Packed::map(jobs))
}

/// The process ids of jobs, by job and minion.
type Pids = HashMap<(Jid, MinionId), Value>;

/// Asks the minions that run these jobs, as far as they are present, for the process ids.
async fn running_pids(run: &Run, jobs: &[ActiveJob]) -> Result<Pids> {
    let minions: BTreeSet<&MinionId> = jobs
        .iter()
        .flat_map(|job| &job.running)
        .filter(|id| run.is_alive(id))
        .collect();
    if minions.is_empty() {
        return Ok(Pids::default());
    }
    let target = Target::list(minions.iter().map(|id| id.as_str()));
    let returns = ask_minions(
        run,
        target,
        "saltutil.running",
        Vec::new(),
        "their process ids are not known",
    )
    .await?;
    let mut pids = Pids::default();
    for stored in returns.unwrap_or_default() {
        let Value::List(running) = stored.payload.unpack_or_show() else {
            continue;
        };
        for job in running {
            let jid = job.get("jid").and_then(Value::as_str);
            let jid = jid.and_then(|jid| Jid::parse(jid).ok());
            if let (Some(jid), Some(Value::Int(pid))) = (jid, job.get("pid")) {
                pids.insert((jid, stored.minion.clone()), Value::Int(*pid));
            }
        }
    }
    Ok(pids)
}

/// Returns the runners and wheel functions that are under way on this master.
///
/// CLI Example:
///
///     saline-run jobs.master
#[function(nonblocking)]
async fn master(run: &Run) -> Vec<Value> {
    let others = run.table.under_way();
    let others = others
        .iter()
        .filter(|other| other.jid != run.jid && run.sees(&other.operator));
    let shown = others.map(|other| {
        Value::map([
            ("jid", Value::from(other.jid.as_str())),
            ("fun", Value::from(other.kind.shown(&other.fun))),
            ("fun_args", shown_arguments(&other.arg)),
            ("user", Value::from(other.user.as_str())),
            ("operator", Value::from(other.operator.as_str())),
        ])
    });
    shown.collect()
}

/// Ends a run on this master before it is done. To end a job of minions: `jobs.cancel`, and `saltutil.kill_job` on the
/// minions.
///
/// CLI Example:
///
///     saline-run jobs.kill 20261121091409931549
#[function(nonblocking)]
async fn kill(run: &Run, jid: Jid) -> Result<bool> {
    let others = run.table.under_way();
    let Some(other) = others.iter().find(|other| other.jid == jid) else {
        return Err(no_such_run(&jid));
    };
    run.check_owner(&other.operator)?;
    other.kill.cancel();
    tracing::info!(
        "{} {jid}: {} ends it (jobs.kill)",
        other.kind,
        run.principal.log_name()
    );
    Ok(true)
}

/// Cancels a job: a minion that has not begun it never will. Returns the state of every minion, and waits for those that are
/// present before, for at most the master's `timeout`.
///
/// CLI Example:
///
///     saline-run jobs.cancel 20261121091409931549
#[function]
async fn cancel(run: &Run, jid: Jid) -> Result<Value> {
    cancelled(run, &jid).await
}

/// Cancels a job, and returns the states of its minions.
pub(super) async fn cancelled(run: &Run, jid: &Jid) -> Result<Value> {
    match run.parts.cancel.carry_out(&run.principal, jid).await {
        Err(OrderError::NoSuchJob(_)) => {
            return Err(match job_report::stored_run(run, jid).await? {
                Some(_) => is_runner(jid),
                None => no_such_job(jid),
            });
        }
        // The run itself was warned of the same.
        cancelled => drop(cancelled?),
    }
    let waits = |run: &Run, (minion, state): &State| {
        *state == MinionJobState::Offered && run.is_alive(minion)
    };
    // Before the run is ended: the job is cancelled, and whoever asked for that sees who has not begun it.
    let last = run.deadline.checked_sub(BEFORE_END);
    let until = job_report::patience(run).min(last.unwrap_or(run.deadline));
    let states = job_report::settled_states(run, jid, until, waits).await?;
    let states = states.into_iter().map(|(minion, state)| {
        let state = match state {
            // It is told when it is back.
            MinionJobState::Offered => {
                "offered; cancelled when the minion reports, unless it has begun"
            }
            state => state.name(),
        };
        (minion.to_string(), Value::from(state))
    });
    Ok(Value::Map(states.collect()))
}

/// Returns what the minions returned from a job, by minion, or the return of an asynchronous runner. `saline-run` also
/// prints which minions have not returned, and why. A job that the store has no more is looked up in the job cache
/// (`master_job_cache`).
///
/// display_progress
///     `True` tells what is being done.
///
/// CLI Example:
///
///     saline-run jobs.lookup_jid 20261121091409931549
///     saline-run jobs.lookup_jid 20261121091409931549 --out json
#[function]
async fn lookup_jid(
    run: &Run,
    jid: Jid,
    #[default(false)] display_progress: bool,
) -> Result<Returned> {
    progress(run, display_progress).await;
    if let Some(stored) = job_report::stored_run(run, &jid).await? {
        return match stored.end {
            Some(end) => Ok(Returned {
                success: end.success,
                ..Packed::map([(master_name(), end.payload)]).into()
            }),
            None => {
                run.note(match run.table.with_jid(&jid) {
                    Some(_) => format!("runner {jid} is under way"),
                    None => format!(
                        "runner {jid} has no return: the master stopped before it ended, or could not store it, as its \
                         log says"
                    ),
                });
                Ok(Value::Map(Vec::new()).into())
            }
        };
    }
    let returns = match run.parts.jobs.job(&jid).await? {
        Some(_) => job_report::returns(run, &jid).await?,
        None => cached_jobs::whole(run, &jid).await?.returns,
    };
    let entries = returns.into_iter();
    let entries = entries.map(|stored| (stored.minion.to_string(), stored.payload));
    Ok(Packed::map(entries).into())
}

/// Returns a job: function, arguments, target, user, time, minions and their returns.
///
/// CLI Example:
///
///     saline-run jobs.list_job 20261121091409931549
#[function]
async fn list_job(run: &Run, jid: Jid, #[default(false)] display_progress: bool) -> Result<Packed> {
    progress(run, display_progress).await;
    let mut entries = whole_job(run, &jid).await?;
    let shown = Packed::pack(&Value::from(jid.as_str()));
    entries.push(("jid".to_owned(), shown));
    Ok(Packed::map(entries))
}

/// Returns a job as `jobs.list_job` does, below its jid.
///
/// CLI Example:
///
///     saline-run jobs.print_job 20261121091409931549
#[function]
async fn print_job(run: &Run, jid: Jid) -> Result<Packed> {
    let entries = whole_job(run, &jid).await?;
    Ok(Packed::map([(jid.as_str(), Packed::map(entries))]))
}

/// Returns for each minion of a job whether it has returned successfully.
///
/// CLI Example:
///
///     saline-run jobs.exit_success 20261121091409931549
#[function]
async fn exit_success(run: &Run, jid: Jid) -> Result<Value> {
    if let Some(stored) = job_report::stored_run(run, &jid).await? {
        let success = stored.end.is_some_and(|end| end.success);
        return Ok(Value::map([(master_name(), Value::Bool(success))]));
    }
    let (minions, returns): (Vec<String>, _) = match run.parts.jobs.job(&jid).await? {
        Some(_) => {
            // In this order: a minion whose return is stored meanwhile is not left out.
            let states = job_report::states(run, &jid).await?.into_iter();
            let minions = states.map(|(minion, _)| minion.to_string()).collect();
            (minions, job_report::returns(run, &jid).await?)
        }
        None => {
            let cached = cached_jobs::whole(run, &jid).await?;
            (cached.minions, cached.returns)
        }
    };
    let succeeded = |minion: &str| {
        let found = returns.binary_search_by(|stored| stored.minion.as_str().cmp(minion));
        found.is_ok_and(|at| returns[at].success && returns[at].retcode == 0)
    };
    let minions = minions.into_iter().map(|minion| {
        let success = Value::Bool(succeeded(&minion));
        (minion, success)
    });
    Ok(Value::Map(minions.collect()))
}

/// The parameters of `jobs.list_jobs`.
#[parameters]
struct ListedJobs {
    search_metadata: Option<Mapping>,
    search_function: Option<Globs>,
    search_target: Option<Globs>,
    start_time: Option<SearchTime>,
    end_time: Option<SearchTime>,
    #[default(false)]
    display_progress: bool,
    #[default(false)]
    include_calls: bool,
    limit: Option<u64>,
}

/// Returns the jobs of the store, and those of the job cache (`master_job_cache`), without their returns, the oldest first, and at
/// most the newest 50,000. The function of an
/// asynchronous runner begins with `runner.`. A job is listed if it passes every filter:
///
/// search_metadata
///     A mapping. One of its entries is among the metadata of the job (`saline --metadata`).
///
/// search_function, search_target
///     Globs over the function and over the target expression, as a list or with commas between them.
///
/// start_time, end_time
///     The job was published between these times, in UTC.
///
/// include_calls
///     `True` lists also what `saline-call` and the schedules of minions ran on their machines, which are jobs that nobody ordered
///     here.
///
/// display_progress
///     `True` tells what is being done.
///
/// limit
///     Only so many of these jobs are listed, the newest ones, and it is told how many are left out.
///
/// CLI Example:
///
///     saline-run jobs.list_jobs
///     saline-run jobs.list_jobs limit=20
///     saline-run jobs.list_jobs search_function='test.*,pkg.install'
///     saline-run jobs.list_jobs search_target='web*' start_time='2026-11-21 09:00' end_time='2026-11-21 10:00'
///     saline-run jobs.list_jobs search_metadata='{ticket: 4711}'
#[function]
async fn list_jobs(run: &Run, #[parameters] listed: ListedJobs) -> Result<Packed> {
    let ListedJobs {
        search_metadata,
        search_function,
        search_target,
        start_time,
        end_time,
        display_progress,
        include_calls,
        limit,
    } = listed;
    progress(run, display_progress).await;
    let (now, all) = (
        run.parts.clock().wall().into(),
        JobSearch::all(
            limit.map_or(MAX_LISTED, |limit| {
                usize::try_from(limit).unwrap_or(MAX_LISTED).min(MAX_LISTED)
            }),
            master_name(),
        ),
    );
    let search = JobSearch {
        functions: search_function.unwrap_or_default().0,
        targets: search_target.unwrap_or_default().0,
        metadata: search_metadata.unwrap_or_default(),
        owner: (!run.sees_all()).then(|| run.principal.owner()),
        includes_calls: include_calls,
        from: start_time.map_or(all.from, |time| time.first_micros(now)),
        until: end_time.map_or(all.until, |time| time.last_micros(now)),
        ..all
    };
    let mut found = run.parts.jobs.search(search.clone()).await?;
    cached_jobs::add_found(run, &search, &mut found).await;
    if found.is_cut {
        let oldest = found.jobs.last().map(|job| &job.jid);
        // Those of the job cache are not counted.
        let at_least = match run.parts.job_cache {
            Some(_) => "at least ",
            None => "",
        };
        let left_out = run.parts.jobs.count_before(search, oldest).await?;
        let older = oldest.map_or_else(String::new, |oldest| {
            let oldest = job_report::start_time(oldest);
            format!(": for older ones give end_time='{oldest} UTC', or other filters")
        });
        run.note(format!(
            "{at_least}{left_out} older jobs are left out, and the newest {} listed{older}",
            found.jobs.len()
        ));
    }
    let jobs = found.jobs.iter().rev();
    let jobs = jobs.map(|job| (job.jid.to_string(), Packed::map(instance(job))));
    Ok(Packed::map(jobs))
}

/// Returns the newest job that passes the filters as `jobs.print_job` does, or False if there is none. `metadata`,
/// `function` and `target` are filters, and `include_calls` counts calls too, as in `jobs.list_jobs`.
///
/// CLI Example:
///
///     saline-run jobs.last_run
///     saline-run jobs.last_run target=nodename
///     saline-run jobs.last_run function='cmd.run'
///     saline-run jobs.last_run metadata='{ticket: 4711}'
#[function]
async fn last_run(
    run: &Run,
    metadata: Option<Mapping>,
    function: Option<Globs>,
    target: Option<Globs>,
    #[default(false)] display_progress: bool,
    #[default(false)] include_calls: bool,
) -> Result<Packed> {
    progress(run, display_progress).await;
    let search = JobSearch {
        functions: function.unwrap_or_default().0,
        targets: target.unwrap_or_default().0,
        metadata: metadata.unwrap_or_default(),
        owner: (!run.sees_all()).then(|| run.principal.owner()),
        includes_calls: include_calls,
        ..JobSearch::all(1, master_name())
    };
    let mut found = run.parts.jobs.search(search.clone()).await?;
    if found.jobs.is_empty() {
        cached_jobs::add_found(run, &search, &mut found).await;
    }
    let Some(last) = found.jobs.first() else {
        return Ok(Packed::pack(&Value::Bool(false)));
    };
    let entries = whole_job(run, &last.jid).await?;
    Ok(Packed::map([(last.jid.as_str(), Packed::map(entries))]))
}

/// Tells the operator that the store is read, if that was asked for.
async fn progress(run: &Run, is_wanted: bool) {
    if is_wanted {
        run.tell_progress("Querying the job store").await;
    }
}
