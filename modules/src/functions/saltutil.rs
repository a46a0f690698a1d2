//! `saltutil`: running jobs and their end, and upkeep.

mod refresh_pillar;
mod sync_all;
mod sync_modules;

use rustix::process::Signal;
use saline_data::Value;
use saline_functions::{Failure, function};
use saline_messages::Jid;
use saline_targeting::Glob;

use crate::job::{Ending, RunningJob, SignalEffect, parse_signal};
use crate::{Functions, JobContext, Outcome};

pub(super) const FUNCTIONS: Functions = &[
    &RUNNING,
    &IS_RUNNING,
    &FIND_JOB,
    &SIGNAL_JOB,
    &TERM_JOB,
    &TERM_ALL_JOBS,
    &KILL_JOB,
    &KILL_ALL_JOBS,
    &REFUSED_RETURNS,
    &REFRESH_GRAINS,
    &REFRESH_MODULES,
    &refresh_pillar::REFRESH_PILLAR,
    &sync_all::SYNC_ALL,
    &sync_modules::SYNC_MODULES,
];

/// Returns the jobs that the minion runs now, each with its function, its arguments, its user and its process.
///
/// CLI Example:
///
///     saline '*' saltutil.running
#[function(nonblocking, in_minion)]
fn running(job: &JobContext<'_>) -> Vec<Value> {
    let jobs = job.host.running.list();
    jobs.iter().map(RunningJob::to_value).collect()
}

/// Returns the jobs that run one of these functions now, each as `saltutil.running` shows it; not this one.
///
/// fun
///     The name of a function, or a glob.
///
/// CLI Example:
///
///     saline '*' saltutil.is_running 'pkg.*'
#[function(nonblocking, in_minion)]
fn is_running(job: &JobContext<'_>, fun: Glob) -> Vec<Value> {
    let others = others(job).into_iter();
    let wanted = others.filter(|other| fun.matches(&other.fun));
    wanted.map(|other| other.to_value()).collect()
}

/// Returns the job with this id as `saltutil.running` does, or an empty mapping if the minion does not run it.
///
/// CLI Example:
///
///     saline '*' saltutil.find_job 20261121091409931549
#[function(nonblocking, in_minion)]
fn find_job(job: &JobContext<'_>, jid: String) -> Value {
    let jid = Jid::parse(&jid).ok();
    let found = jid.and_then(|jid| job.host.running.find(&jid));
    found.map_or_else(|| Value::Map(Vec::new()), |job| job.to_value())
}

/// Sends a signal to a running job.
///
/// The command of a job (`cmd.run`) gets the signal with its whole process group, and the job returns what the command
/// prints and how it ends. A job that waits without a process (`test.sleep`) is interrupted by HUP, INT, QUIT, KILL
/// and TERM, and its return names the job that ended it. A job that has not got a thread yet does not begin. Any other
/// job goes on, and an error says why.
///
/// jid
///     The id of the job.
///
/// sig
///     The name or the number of the signal.
///
/// Returns an empty text if the minion does not run such a job, or the job ends meanwhile.
///
/// CLI Example:
///
///     saline '*' saltutil.signal_job 20261121091409931549 SIGHUP
#[function(nonblocking, in_minion)]
fn signal_job(job: &JobContext<'_>, jid: String, sig: String) -> Result<String, Failure> {
    let signal = parse_signal(&sig)
        .ok_or_else(|| Failure::Invocation(format!("sig: there is no signal {sig:?}")))?;
    send(job, &jid, signal)
}

/// Asks a running job to end: `saltutil.signal_job` with SIGTERM.
///
/// CLI Example:
///
///     saline '*' saltutil.term_job 20261121091409931549
#[function(nonblocking, in_minion)]
fn term_job(job: &JobContext<'_>, jid: String) -> Result<String, Failure> {
    send(job, &jid, Signal::TERM)
}

/// Ends a running job: `saltutil.signal_job` with SIGKILL.
///
/// CLI Example:
///
///     saline '*' saltutil.kill_job 20261121091409931549
#[function(nonblocking, in_minion)]
fn kill_job(job: &JobContext<'_>, jid: String) -> Result<String, Failure> {
    send(job, &jid, Signal::KILL)
}

/// Asks all jobs that the minion runs to end, but for this one: `saltutil.term_job` of each. Returns what happened to each job; the
/// retcode is 1 if one goes on.
///
/// CLI Example:
///
///     saline '*' saltutil.term_all_jobs
#[function(nonblocking, in_minion)]
fn term_all_jobs(job: &JobContext<'_>) -> Outcome {
    send_to_all(job, Signal::TERM)
}

/// Ends all jobs that the minion runs, but for this one: `saltutil.kill_job` of each. Returns what happened to each job; the retcode
/// is 1 if one goes on.
///
/// CLI Example:
///
///     saline '*' saltutil.kill_all_jobs
#[function(nonblocking, in_minion)]
fn kill_all_jobs(job: &JobContext<'_>) -> Outcome {
    send_to_all(job, Signal::KILL)
}

/// Returns the jobs that run beside this one.
fn others(context: &JobContext<'_>) -> Vec<RunningJob> {
    let own = context.job.description().jid;
    let mut others = context.host.running.list();
    others.retain(|other| other.jid != own);
    others
}

fn send_to_all(context: &JobContext<'_>, signal: Signal) -> Outcome {
    let mut retcode = 0;
    let others = others(context).into_iter();
    let told = others.map(|other| match send(context, other.jid.as_str(), signal) {
        // It has ended meanwhile.
        Ok(said) if said.is_empty() => Value::from(format!("Job {} has ended", other.jid)),
        Ok(said) => Value::from(said),
        Err(failure) => {
            retcode = 1;
            Value::from(failure.to_string())
        }
    });
    let told: Vec<Value> = told.collect();
    Outcome::new(told, retcode)
}

/// Sends a signal to the job `jid`, and says in Salt's words, where there are such, what it did.
fn send(context: &JobContext<'_>, jid: &str, signal: Signal) -> Result<String, Failure> {
    let found = Jid::parse(jid).ok();
    let Some(job) = found.and_then(|jid| context.host.running.control(&jid)) else {
        return Ok(String::new());
    };
    let own = context.job.description();
    let effect = job.signal(Ending {
        signal,
        by: own.jid,
        user: own.user,
    });
    let target = job.description();
    let (number, jid, fun) = (signal.as_raw(), &target.jid, &target.fun);
    let from = context.job.description().jid;
    tracing::info!("job {jid}: signal {number} from {from}: {effect}");
    let sent = match effect {
        SignalEffect::Sent(pid) => format!(" at pid {pid}"),
        SignalEffect::SentAtStart => ": its command gets it as it starts".to_owned(),
        SignalEffect::Interrupted => format!(": {fun} was interrupted"),
        SignalEffect::NotBegun => ": it had not begun, and will not".to_owned(),
        SignalEffect::HasEnded => return Ok(String::new()),
        SignalEffect::Noted => {
            return Err(Failure::Execution(format!(
                "job {jid} goes on: {fun} has no process, and cannot be interrupted unless it waits or runs a command later"
            )));
        }
        SignalEffect::NoProcess => {
            return Err(Failure::Execution(format!(
                "signal {number} was not sent: job {jid} runs {fun} and has no process now; HUP, INT, QUIT, KILL and TERM end such a job"
            )));
        }
        SignalEffect::Unanswered(pid) => {
            return Err(Failure::Execution(format!(
                "signal {number} was not answered by process {pid} of job {jid}, which may still get it: is it stopped, or the machine too busy?"
            )));
        }
        SignalEffect::Refused(pid, error) => {
            return Err(Failure::Execution(format!(
                "signal {number} was not sent to job {jid} at pid {pid}: {error}"
            )));
        }
    };
    Ok(format!("Signal {number} sent to job {jid}{sent}"))
}

/// Returns the ids of the jobs whose returns the master refused: it does not know the job, did not offer it to this
/// minion, or another machine uses the id of this one. With the id of such a job: returns what it returned. A refused
/// return stays in the minion's spool, and is sent again if the master asks for its job, until it is forgotten with
/// `forget=True`.
///
/// CLI Example:
///
///     saline '*' saltutil.refused_returns
///     saline '*' saltutil.refused_returns 20261121091409931549
///     saline web1 saltutil.refused_returns 20261121091409931549 forget=True
#[function(in_minion)]
fn refused_returns(
    job: &JobContext<'_>,
    jid: Option<String>,
    #[default(false)] forget: bool,
) -> Result<Value, Failure> {
    let Some(returns) = &job.host.refused_returns else {
        return Err(Failure::Execution(
            "the spool belongs to the running minion: ask it with `saline`".to_owned(),
        ));
    };
    let refused = returns.jobs();
    let Some(text) = jid else {
        return Ok(Value::texts(refused.iter().map(Jid::as_str)));
    };
    let jid = Jid::parse(&text).ok();
    let Some(jid) = jid.filter(|jid| refused.contains(jid)) else {
        return Ok(Value::Map(Vec::new()));
    };
    if forget {
        let forgotten = returns.forget(&jid).map_err(|error| {
            Failure::Execution(format!(
                "the return of job {jid} is not forgotten, since the spool cannot be written: {error}"
            ))
        })?;
        return Ok(Value::Bool(forgotten));
    }
    match returns.read(&jid) {
        Ok(Some(returned)) => Ok(Value::map([
            ("fun", Value::from(returned.fun)),
            ("retcode", Value::from(returned.retcode)),
            ("return", returned.payload.unpack_or_show()),
        ])),
        Ok(None) => Ok(Value::Map(Vec::new())),
        Err(error) => Err(Failure::Execution(format!(
            "the return of job {jid} cannot be read from the spool: {error}"
        ))),
    }
}

/// Collects the facts about the machine again, and reports them to the master if they have changed. The minion asks for its pillar
/// after each report; `refresh_pillar` and `clean_pillar_cache` are taken for the sake of scripts, and ignored.
///
/// CLI Example:
///
///     saline '*' saltutil.refresh_grains
#[function(in_minion)]
#[expect(unused_variables, reason = "the report decides")]
fn refresh_grains(
    job: &JobContext<'_>,
    #[default(true)] refresh_pillar: bool,
    #[default(false)] clean_pillar_cache: bool,
) -> bool {
    job.host.refresh_grains(job.job);
    true
}

/// Forgets what the executables in `module_dirs` described: each is asked again when its functions are next called or listed. That
/// is needed only if what an executable describes depends on more than its file. Also looks again which modules work on this machine:
/// it fires `module_refresh` on the minion's own bus. `async` and `refresh_pillar` are taken for the sake of scripts, and ignored.
///
/// CLI Example:
///
///     saline '*' saltutil.refresh_modules
#[function(nonblocking, in_minion)]
#[expect(unused_variables, reason = "it is done at once")]
fn refresh_modules(
    job: &JobContext<'_>,
    #[default(true)] r#async: bool,
    #[default(true)] refresh_pillar: bool,
) -> Result<bool, Failure> {
    job.modules.executables.forget();
    job.host.function_changes.note();
    // Beside a running minion every call looks for itself.
    if job.host.has_bus {
        let fired = job.host.local_events.fire("module_refresh", Vec::new());
        fired.map_err(|error| Failure::Execution(error.to_string()))?;
    }
    Ok(true)
}
