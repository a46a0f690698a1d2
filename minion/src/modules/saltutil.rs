//! `saltutil`: running jobs and their end, and upkeep.

use rustix::process::Signal;
use saline_data::Value;
use saline_messages::Jid;

use super::{Call, Failure, Function, Module, Outcome, optional, required};
use crate::executor::{Ending, SignalEffect, parse_signal};

/// The module `saltutil`.
#[derive(Debug)]
pub struct SaltUtil;

impl Module for SaltUtil {
    fn name(&self) -> &'static str {
        "saltutil"
    }

    fn functions(&self) -> &'static [Function] {
        FUNCTIONS
    }
}

const FUNCTIONS: &[Function] = &[
    Function::new("running", RUNNING, running).about_jobs(),
    Function::new("find_job", FIND_JOB, find_job)
        .with(&[required("jid")])
        .about_jobs(),
    Function::new("signal_job", SIGNAL_JOB, signal_job)
        .with(&[required("jid"), required("sig")])
        .about_jobs(),
    Function::new("term_job", TERM_JOB, term_job)
        .with(&[required("jid")])
        .about_jobs(),
    Function::new("kill_job", KILL_JOB, kill_job)
        .with(&[required("jid")])
        .about_jobs(),
    Function::new("refused_returns", REFUSED_RETURNS, refused_returns).with(&[optional("jid")]),
    Function::new("refresh_grains", REFRESH_GRAINS, refresh_grains)
        .with(&[optional("refresh_pillar"), optional("clean_pillar_cache")]),
];

const RUNNING: &str = "
Return the data on all running saline processes on the minion.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.running
";

fn running(call: &Call<'_>) -> Result<Outcome, Failure> {
    let jobs = call.host.running.list();
    Ok(Value::List(jobs.iter().map(|job| job.to_value()).collect()).into())
}

const FIND_JOB: &str = "
Return the data for a specific job id that is currently running.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.find_job <job id>
";

fn find_job(call: &Call<'_>) -> Result<Outcome, Failure> {
    let text = call.text("jid")?.unwrap_or_default();
    let found = Jid::parse(&text)
        .ok()
        .and_then(|jid| call.host.running.find(&jid));
    Ok(found
        .map_or_else(|| Value::Map(Vec::new()), |job| job.to_value())
        .into())
}

const SIGNAL_JOB: &str = "
Send a signal to a running job.

A command that the job runs (`cmd.run`) gets the signal, together with every process of its process
group; the job returns what the command leaves. A job without a process that waits (`test.sleep`) is
interrupted by HUP, INT, QUIT, KILL and TERM, and returns by whom. A job that waits for a thread does
not begin. An error says so when a job is neither: it has no process and cannot be interrupted.

jid
    The id of the job.

sig
    The number or the name of the signal.

Returns the empty text when no such job runs.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.signal_job <job id> 15
";

fn signal_job(call: &Call<'_>) -> Result<Outcome, Failure> {
    let text = call.text("sig")?.unwrap_or_default();
    let signal = parse_signal(&text)
        .ok_or_else(|| Failure::Invocation(format!("sig: there is no signal {text:?}")))?;
    send(call, signal)
}

const TERM_JOB: &str = "
Send a termination signal (SIGTERM 15) to a running job, as saltutil.signal_job does.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.term_job <job id>
";

fn term_job(call: &Call<'_>) -> Result<Outcome, Failure> {
    send(call, Signal::TERM)
}

const KILL_JOB: &str = "
Send a kill signal (SIGKILL 9) to a running job, as saltutil.signal_job does.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.kill_job <job id>
";

fn kill_job(call: &Call<'_>) -> Result<Outcome, Failure> {
    send(call, Signal::KILL)
}

/// Sends a signal to the job `jid`, and says in Salt's words, where there are such, what it did.
fn send(call: &Call<'_>, signal: Signal) -> Result<Outcome, Failure> {
    let text = call.text("jid")?.unwrap_or_default();
    let found = Jid::parse(&text)
        .ok()
        .and_then(|jid| call.host.running.control(&jid));
    let Some(job) = found else {
        return Ok("".into());
    };
    let own = call.job.description();
    let effect = job.signal(Ending {
        signal,
        by: own.jid,
        user: own.user,
    });
    let target = job.description();
    let (number, jid, fun) = (signal.as_raw(), &target.jid, &target.fun);
    tracing::info!(
        "job {jid}: signal {number} from {}: {effect}",
        call.job.description().jid
    );
    match effect {
        SignalEffect::Sent(pid) => {
            Ok(format!("Signal {number} sent to job {jid} at pid {pid}").into())
        }
        SignalEffect::SentAtStart => Ok(format!(
            "Signal {number} sent to job {jid}: its command gets it as it starts"
        )
        .into()),
        SignalEffect::Interrupted => {
            Ok(format!("Signal {number} sent to job {jid}: {fun} was interrupted").into())
        }
        SignalEffect::NotBegun => {
            Ok(format!("Signal {number} sent to job {jid}: it had not begun, and will not").into())
        }
        SignalEffect::Noted => Err(Failure::Execution(format!(
            "job {jid} goes on: {fun} has no process, and cannot be interrupted unless it waits or runs a command later"
        ))),
        SignalEffect::NoProcess => Err(Failure::Execution(format!(
            "signal {number} was not sent: job {jid} runs {fun} and has no process now; HUP, INT, QUIT, KILL and TERM end such a job"
        ))),
        SignalEffect::Refused(pid, error) => Err(Failure::Execution(format!(
            "signal {number} was not sent to job {jid} at pid {pid}: {error}"
        ))),
    }
}

const REFUSED_RETURNS: &str = "
Return the jobs whose returns the master did not take: it does not know the job, did not offer it to this
minion, or has another machine with this id. With the id of one of them, return what it returned. Such
returns stay in the minion's spool, and one is sent again when the master asks for its job.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.refused_returns
    saline '*' saltutil.refused_returns <job id>
";

fn refused_returns(call: &Call<'_>) -> Result<Outcome, Failure> {
    let Some(spool) = &call.host.spool else {
        return Err(Failure::Execution(
            "the spool belongs to the running minion: ask it with `saline`".to_owned(),
        ));
    };
    let Some(text) = call.text("jid")? else {
        let aside = spool.aside();
        return Ok(Value::texts(aside.iter().map(Jid::as_str)).into());
    };
    let refused = Jid::parse(&text)
        .ok()
        .filter(|jid| spool.aside().contains(jid));
    let Some(jid) = refused else {
        return Ok(Value::Map(Vec::new()).into());
    };
    match spool.read(&jid) {
        Ok(Some(returned)) => Ok(Value::map([
            ("fun", Value::from(returned.fun)),
            ("retcode", Value::from(returned.retcode)),
            ("return", returned.payload.unpack_or_show()),
        ])
        .into()),
        Ok(None) => Ok(Value::Map(Vec::new()).into()),
        Err(error) => Err(Failure::Execution(format!(
            "the return of job {jid} cannot be read from the spool: {error}"
        ))),
    }
}

const REFRESH_GRAINS: &str = "
Read the minion's grains again.

CLI Example:

.. code-block:: bash

    saline '*' saltutil.refresh_grains
";

fn refresh_grains(call: &Call<'_>) -> Result<Outcome, Failure> {
    call.host.grains.refresh();
    Ok(true.into())
}
