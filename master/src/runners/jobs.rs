//! `jobs`: jobs of the store and runs of this master.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_messages::{Jid, MinionId, OfferState};
use saline_targeting::Target;

use super::arguments::BoundArguments;
use super::ask_minions::ask_minions;
use super::error::RunnerError;
use super::function::{Function, Returned};
use super::job_filters::{self, FilterNames, MAX_LISTED};
use super::job_report::{self, State, arguments as shown_arguments, instance, whole_job};
use super::run::Run;
use crate::jobs::{ActiveJob, FoundJob};

type Result<T, E = RunnerError> = std::result::Result<T, E>;

/// How long before its end a run returns what it has come to.
const BEFORE_END: Duration = Duration::from_millis(500);

/// The filters of a list of jobs.
const LIST_FILTERS: FilterNames = FilterNames {
    metadata: "search_metadata",
    function: "search_function",
    target: "search_target",
};

/// The same under the names that Salt's `jobs.last_run` has for them.
const LAST_RUN_FILTERS: FilterNames = FilterNames {
    metadata: "metadata",
    function: "function",
    target: "target",
};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("active", ACTIVE, |run, given| Box::pin(active(run, given))).with(0, &["pids"]),
    Function::new("cancel", CANCEL, |run, given| Box::pin(cancel(run, given))).with(1, &["jid"]),
    Function::new("exit_success", EXIT_SUCCESS, |run, given| {
        Box::pin(exit_success(run, given))
    })
    .with(1, &["jid"]),
    Function::new("kill", KILL, |run, given| Box::pin(kill(run, given)))
        .with(1, &["jid"])
        .about_runs(),
    Function::new("last_run", LAST_RUN, |run, given| {
        Box::pin(last_run(run, given))
    })
    .with(0, &["metadata", "function", "target", "display_progress"]),
    Function::new("list_job", LIST_JOB, |run, given| {
        Box::pin(list_job(run, given))
    })
    .with(1, &["jid", "display_progress"]),
    Function::new("list_jobs", LIST_JOBS, |run, given| {
        Box::pin(list_jobs(run, given))
    })
    .with(
        0,
        &[
            "search_metadata",
            "search_function",
            "search_target",
            "start_time",
            "end_time",
            "display_progress",
        ],
    ),
    Function::new("lookup_jid", LOOKUP_JID, |run, given| {
        Box::pin(lookup_jid(run, given))
    })
    .with(1, &["jid", "display_progress"]),
    Function::new("master", MASTER, |run, _| Box::pin(master(run))).about_runs(),
    Function::new("print_job", PRINT_JOB, |run, given| {
        Box::pin(print_job(run, given))
    })
    .with(1, &["jid"]),
];

const ACTIVE: &str = "
Return the jobs that minions run, by their jids: what minions reported, and which of them have returned. Beside
each minion that runs a job stands the process id there: that of the job's command, or of the minion itself while
the job has none. Minions that run jobs and are present are asked for these (`saltutil.running`), at most for the
master's `timeout`; a process id that is not known is null. `pids=False` asks nobody.

CLI Example:

.. code-block:: bash

    saline-run jobs.active
    saline-run jobs.active pids=False
";

async fn active(run: &Run, given: &BoundArguments) -> Result<Returned> {
    let (mut jobs, all) = (Vec::new(), run.parts.jobs.active());
    let pids = match given.flag_or("pids", true)? {
        true => running_pids(run, &all).await?,
        false => Pids::default(),
    };
    for active in all {
        // It may have been pruned meanwhile.
        let Some(stored) = run.parts.jobs.job(&active.jid).await? else {
            continue;
        };
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
        let returned = Value::texts(active.returned.iter().map(MinionId::as_str));
        entries.push(("Returned".to_owned(), Packed::pack(&returned)));
        jobs.push((active.jid.to_string(), Packed::map(entries)));
    }
    Ok(Packed::map(jobs).into())
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

const MASTER: &str = "
Return the runners that are under way on this master.

CLI Example:

.. code-block:: bash

    saline-run jobs.master
";

async fn master(run: &Run) -> Result<Returned> {
    let others = run.table.under_way();
    let others = others.iter().filter(|other| other.jid != run.jid);
    let shown = others.map(|other| {
        Value::map([
            ("jid", Value::from(other.jid.as_str())),
            ("fun", Value::from(format!("runner.{}", other.fun))),
            ("fun_args", shown_arguments(&other.arg)),
            ("user", Value::from(other.user.as_str())),
            ("operator", Value::from(other.operator.as_str())),
        ])
    });
    Ok(Value::List(shown.collect()).into())
}

const KILL: &str = "
End a run that is under way on this master, before it is done. Jobs of minions are ended with
`jobs.cancel` and with `saltutil.kill_job` on the minions.

CLI Example:

.. code-block:: bash

    saline-run jobs.kill 20261121091409931549
";

async fn kill(run: &Run, given: &BoundArguments) -> Result<Returned> {
    let jid = given.jid("jid")?;
    let others = run.table.under_way();
    let Some(other) = others.iter().find(|other| other.jid == jid) else {
        return Err(RunnerError::NoSuchRun(jid));
    };
    other.kill.cancel();
    tracing::info!(
        "runner {jid}: operator {} ends it (jobs.kill)",
        run.operator
    );
    Ok(Value::Bool(true).into())
}

const CANCEL: &str = "
Cancel a job: minions that have not begun it will not. Waits for those that are present, at most for the
master's `timeout`, and returns the state of every minion.

CLI Example:

.. code-block:: bash

    saline-run jobs.cancel 20261121091409931549
";

async fn cancel(run: &Run, given: &BoundArguments) -> Result<Returned> {
    let jid = given.jid("jid")?;
    cancelled(run, &jid).await
}

/// Cancels a job, and returns the states of its minions.
pub(super) async fn cancelled(run: &Run, jid: &Jid) -> Result<Returned> {
    if !run.parts.cancel.cancel(&run.operator, jid).await? {
        return Err(match job_report::stored_run(run, jid).await? {
            Some(_) => RunnerError::IsRunner(jid.clone()),
            None => RunnerError::NoSuchJob(jid.clone()),
        });
    }
    let waits =
        |run: &Run, (minion, state): &State| *state == OfferState::Offered && run.is_alive(minion);
    // Before the run is ended: the job is cancelled, and whoever asked for that sees who has not begun it.
    let last = run.deadline.checked_sub(BEFORE_END);
    let until = job_report::patience(run).min(last.unwrap_or(run.deadline));
    let states = job_report::settled_states(run, jid, until, waits).await?;
    let states = states.into_iter().map(|(minion, state)| {
        let state = match state {
            // It is told when it is back.
            OfferState::Offered => {
                "offered; cancelled when the minion reports, unless it has begun"
            }
            state => state.name(),
        };
        (minion.to_string(), Value::from(state))
    });
    Ok(Value::Map(states.collect()).into())
}

const LOOKUP_JID: &str = "
Return what minions returned from a job, by minion, or what an asynchronous runner returned. `saline-run`
names the minions that have not returned, and why.

CLI Example:

.. code-block:: bash

    saline-run jobs.lookup_jid 20261121091409931549
    saline-run jobs.lookup_jid 20261121091409931549 --out json
";

async fn lookup_jid(run: &Run, given: &BoundArguments) -> Result<Returned> {
    let jid = given.jid("jid")?;
    progress(run, given).await?;
    if let Some(stored) = job_report::stored_run(run, &jid).await? {
        return match stored.end {
            Some(end) => Ok(Returned {
                payload: Packed::map([(job_report::master_name(), end.payload)]),
                success: end.success,
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
    let returns = job_report::returns(run, &jid).await?;
    let entries = returns.into_iter();
    let entries = entries.map(|stored| (stored.minion.to_string(), stored.payload));
    Ok(Packed::map(entries).into())
}

const LIST_JOB: &str = "
Return a job with its minions and what they returned.

CLI Example:

.. code-block:: bash

    saline-run jobs.list_job 20261121091409931549
";

async fn list_job(run: &Run, given: &BoundArguments) -> Result<Returned> {
    let jid = given.jid("jid")?;
    progress(run, given).await?;
    let mut entries = whole_job(run, &jid).await?;
    let shown = Packed::pack(&Value::from(jid.as_str()));
    entries.push(("jid".to_owned(), shown));
    Ok(Packed::map(entries).into())
}

const PRINT_JOB: &str = "
Return a job with its minions and what they returned, below its jid.

CLI Example:

.. code-block:: bash

    saline-run jobs.print_job 20261121091409931549
";

async fn print_job(run: &Run, given: &BoundArguments) -> Result<Returned> {
    let jid = given.jid("jid")?;
    let entries = whole_job(run, &jid).await?;
    Ok(Packed::map([(jid.as_str(), Packed::map(entries))]).into())
}

const EXIT_SUCCESS: &str = "
Return for each minion of a job whether it has returned and succeeded.

CLI Example:

.. code-block:: bash

    saline-run jobs.exit_success 20261121091409931549
";

async fn exit_success(run: &Run, given: &BoundArguments) -> Result<Returned> {
    let jid = given.jid("jid")?;
    if let Some(stored) = job_report::stored_run(run, &jid).await? {
        let success = stored.end.is_some_and(|end| end.success);
        return Ok(Value::map([(job_report::master_name(), Value::Bool(success))]).into());
    }
    // In this order: a minion whose return is stored meanwhile is not left out.
    let states = job_report::states(run, &jid).await?;
    let returns = job_report::returns(run, &jid).await?;
    let succeeded = |minion: &MinionId| {
        let found = returns.binary_search_by(|stored| stored.minion.cmp(minion));
        found.is_ok_and(|at| returns[at].success && returns[at].retcode == 0)
    };
    let minions = states.iter().map(|(minion, _)| {
        let success = Value::Bool(succeeded(minion));
        (minion.to_string(), success)
    });
    Ok(Value::Map(minions.collect()).into())
}

const LIST_JOBS: &str = "
Return the jobs of the store, the oldest first, without what minions returned. Asynchronous runners are among
them, as functions that begin with `runner.`. The filters choose those that pass all of them:
`search_function` and `search_target` are globs with commas between them, over the function and over the
target expression; `search_metadata` is a mapping, of which one entry must be among the job's metadata
(`saline --metadata`); `start_time` and `end_time` are times in UTC. At most the newest 50,000 jobs are
listed. `display_progress=True` tells what is done.

CLI Example:

.. code-block:: bash

    saline-run jobs.list_jobs
    saline-run jobs.list_jobs search_function='test.*,pkg.install'
    saline-run jobs.list_jobs search_target='web*' start_time='2026-11-21 09:00' end_time='2026-11-21 10:00'
    saline-run jobs.list_jobs search_metadata='{ticket: 4711}'
";

async fn list_jobs(run: &Run, given: &BoundArguments) -> Result<Returned> {
    progress(run, given).await?;
    let search = job_filters::search(run, given, LIST_FILTERS, MAX_LISTED)?;
    let found = run.parts.jobs.search(search).await?;
    if found.is_cut {
        let oldest = found.jobs.last();
        let oldest = oldest.map_or_else(String::new, |job| job_report::start_time(&job.jid));
        run.note(format!(
            "the newest {} jobs are listed: for older ones give end_time='{oldest}', or other filters",
            found.jobs.len()
        ));
    }
    let jobs = found.jobs.iter().rev();
    let jobs = jobs.map(|job| (job.jid.to_string(), Packed::map(instance(job))));
    Ok(Packed::map(jobs).into())
}

const LAST_RUN: &str = "
Return the last job that passes the filters, as `jobs.print_job` does, or False if there is none. The filters
are those of `jobs.list_jobs`: `metadata`, `function` and `target`.

CLI Example:

.. code-block:: bash

    saline-run jobs.last_run
    saline-run jobs.last_run target=nodename
    saline-run jobs.last_run function='cmd.run'
    saline-run jobs.last_run metadata='{ticket: 4711}'
";

async fn last_run(run: &Run, given: &BoundArguments) -> Result<Returned> {
    progress(run, given).await?;
    let search = job_filters::search(run, given, LAST_RUN_FILTERS, 1)?;
    let found = run.parts.jobs.search(search).await?;
    let Some(last) = found.jobs.first() else {
        return Ok(Value::Bool(false).into());
    };
    let entries = whole_job(run, &last.jid).await?;
    Ok(Packed::map([(last.jid.as_str(), Packed::map(entries))]).into())
}

/// Tells the operator that the store is read, if that was asked for.
async fn progress(run: &Run, given: &BoundArguments) -> Result<()> {
    if given.flag("display_progress")? {
        run.tell_progress("Querying the job store").await;
    }
    Ok(())
}
