//! Runs the function of a job on the calling thread, and spools its return.

use saline_data::Packed;
#[cfg(feature = "chaos")]
use saline_data::Value;
use saline_functions::Failure;
use saline_messages::{ArgumentPlace, Arguments, Job, Return, Secrets};
use saline_modules::job::ScheduledCall;

use crate::spool::{BeginError, Spool};
use saline_modules::Host;
use saline_modules::job::{Ending, Entered};
use saline_modules::{Modules, Outcome, ended_before_start};

/// A job that is to run here.
#[derive(Debug, Clone)]
pub(super) struct JobToRun {
    /// The job, with markers in the place of secret arguments.
    pub(super) job: Job,
    /// The values of the secret arguments.
    pub(super) secrets: Option<Secrets>,
    /// What the master is to have of it, if it is a job of the minion's own schedule.
    pub(super) scheduled: Option<ScheduledCall>,
}

/// The end of a job that got a thread.
#[derive(Debug)]
pub enum JobEnd {
    /// The job's return is spooled.
    Spooled,
    /// The job was begun before, has expired or was cancelled; nothing was done.
    NotBegun(BeginError),
    /// The minion stops, and the process of the job goes on.
    LeftRunning,
}

/// Notes in the spool that the job begins, runs its function, and spools the return. The values of secret arguments
/// are put in for the function alone: spool and return have their markers.
pub(super) fn run_job(
    modules: &Modules,
    host: &Host,
    spool: &Spool,
    run: &JobToRun,
    entered: Entered,
) -> JobEnd {
    if let Err(end) = begin(spool, run) {
        return end;
    }
    run_begun(modules, host, spool, run, entered)
}

/// Notes in the spool that the job begins.
pub(super) fn begin(spool: &Spool, run: &JobToRun) -> Result<(), JobEnd> {
    let job = &run.job;
    if let Some(call) = &run.scheduled {
        spool.begin_scheduled(&job.jid, call.clone());
        return Ok(());
    }
    spool.begin(job).map_err(|error| match error {
        BeginError::Seen | BeginError::Over => JobEnd::NotBegun(error),
        BeginError::Io(error) => {
            tracing::error!("job {}: not run: {error}", job.jid);
            let why = format!("not run: the minion could not write to its spool: {error}");
            refuse_job(spool, job, &why)
        }
    })
}

/// Runs the function of a job whose beginning is noted, and spools the return.
pub(super) fn run_begun(
    modules: &Modules,
    host: &Host,
    spool: &Spool,
    run: &JobToRun,
    entered: Entered,
) -> JobEnd {
    let job = &run.job;
    let failed = |failure| Outcome::of_failure(&failure, &job.fun, "");
    let call = |(arguments, hidden): (Arguments, Vec<ArgumentPlace>)| {
        modules.call_hiding(&job.fun, arguments, &hidden, host, entered.control())
    };
    let outcome = match (entered.control().begin(), revealed(run)) {
        (Err(ending), _) => failed(ended_before_start(&ending)),
        (Ok(()), Ok(arguments)) => call(arguments),
        (Ok(()), Err(failure)) => failed(failure),
    };
    #[cfg(feature = "chaos")]
    if saline_daemon::sabotage::is_on("rerun")
        && let Ok(arguments) = revealed(run)
    {
        // The first run counts.
        let _ = call(arguments);
    }
    let returned = make_return(host, job, outcome);
    spool.finish(returned);
    // After the return is spooled, so that every heartbeat either lists the job or finds its return.
    drop(entered);
    JobEnd::Spooled
}

/// Returns the arguments of a job with the values of the secret ones, and the places of these.
pub(super) fn revealed(run: &JobToRun) -> Result<(Arguments, Vec<ArgumentPlace>), Failure> {
    let unpacked = run.job.arg.unpack();
    let mut arguments = unpacked.map_err(|error| Failure::Invocation(error.to_string()))?;
    let places = Secrets::put_in(run.secrets.as_ref(), &mut arguments)
        .map_err(|error| Failure::Execution(format!("not run: {error}")))?;
    Ok((arguments, places))
}

/// Spools a return that says why the job was not run.
pub fn refuse_job(spool: &Spool, job: &Job, why: &str) -> JobEnd {
    refuse(spool, job, &Failure::Execution(why.to_owned()))
}

/// Spools the return of a job that another job ended before it began.
pub fn end_before_start(spool: &Spool, job: &Job, ending: &Ending) -> JobEnd {
    refuse(spool, job, &ended_before_start(ending))
}

fn refuse(spool: &Spool, job: &Job, failure: &Failure) -> JobEnd {
    let outcome = Outcome::of_failure(failure, &job.fun, "");
    let retcode = outcome.retcode;
    spool.refuse(
        job.expires,
        build(job, retcode, Packed::pack(&outcome.value)),
    );
    JobEnd::Spooled
}

fn build(job: &Job, retcode: i64, payload: Packed) -> Return {
    Return {
        jid: job.jid.clone(),
        fun: job.fun.clone(),
        retcode,
        success: retcode == 0,
        payload,
    }
}

/// Makes the return.
fn make_return(host: &Host, job: &Job, outcome: Outcome) -> Return {
    #[cfg(feature = "chaos")]
    let outcome = Outcome {
        value: shortened(outcome.value),
        ..outcome
    };
    let (retcode, payload) = outcome.pack(&job.fun, host);
    build(job, retcode, payload)
}

/// Spoils a text, so that the books of the fault injector must notice.
#[cfg(feature = "chaos")]
pub(super) fn shortened(value: Value) -> Value {
    match value {
        Value::Text(mut text) if saline_daemon::sabotage::is_on("shorten-returns") => {
            text.pop();
            Value::Text(text)
        }
        value => value,
    }
}
