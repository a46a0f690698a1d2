//! Running a function on a thread of the pool, and making its return.

use std::io::Write;

use saline_protocol::message::{Arguments, Job, Packed, PackedArguments, Return, Value};

use crate::executor::RunningJob;
use crate::host::Host;
use crate::leftover;
use crate::modules::{Failure, Outcome};
use crate::spool::{BeginError, Spool};

/// How a job that got a thread ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Returned {
    /// Its return is spooled; with this retcode.
    Spooled(i64),
    /// It has been here: nothing was done.
    Seen,
}

/// Notes that the job begins, runs it, and spools what came out.
pub fn run_and_spool(host: &Host, spool: &Spool, job: &Job) -> Returned {
    match spool.begin(job) {
        Ok(()) => {}
        Err(BeginError::Seen) => return Returned::Seen,
        Err(BeginError::Io(error)) => {
            tracing::error!("job {}: not run: {error}", job.jid);
            let why = format!("not run: the minion could not note it in its spool: {error}");
            return not_begun(spool, job, &why);
        }
    }
    let entered = host.running.enter(RunningJob::of(job));
    let outcome = match job.arg.unpack() {
        Ok(arguments) => host.modules.call(&job.fun, arguments, host),
        Err(error) => Failure::Invocation(error.to_string()).outcome(&job.fun, ""),
    };
    let returned = make(host, job, outcome);
    let retcode = returned.retcode;
    spool.finish(returned);
    // Only now: a heartbeat in between names it rather than nothing.
    drop(entered);
    Returned::Spooled(retcode)
}

/// A job that was not run returns that, and why.
pub fn not_begun(spool: &Spool, job: &Job, why: &str) -> Returned {
    let outcome = Failure::Execution(why.to_owned()).outcome(&job.fun, "");
    let retcode = outcome.retcode;
    spool.refuse(
        job.expires,
        build(job, retcode, Packed::pack(&outcome.value)),
    );
    Returned::Spooled(retcode)
}

fn build(job: &Job, retcode: i64, payload: Packed) -> Return {
    Return {
        jid: job.jid.clone(),
        fun: job.fun.clone(),
        fun_args: job.arg.clone(),
        retcode,
        success: retcode == 0,
        payload,
    }
}

/// The return, or, when it is too large to be sent, one that says so and where it lies.
fn make(host: &Host, job: &Job, outcome: Outcome) -> Return {
    let Outcome { value, retcode } = outcome;
    let payload = Packed::pack(&value);
    // It may be large, and what follows needs the memory.
    drop(value);
    let arguments = job.arg.as_packed().as_bytes().len() + job.fun.len();
    let limit = host.max_payload();
    if payload.as_bytes().len() + arguments <= limit {
        return build(job, retcode, payload);
    }
    let size = payload.as_bytes().len();
    let lies = leftover::create(&host.cache_dir, "msgpack")
        .and_then(|(mut file, path)| file.write_all(payload.as_bytes()).map(|()| path));
    let lies = match lies {
        Ok(path) => format!("it lies, as MessagePack, in {}", path.display()),
        Err(error) => format!("it could not be kept: {error}"),
    };
    let most = limit.saturating_sub(arguments);
    let why = format!("the return of {size} bytes is above the limit of {most} bytes; {lies}");
    let outcome = Failure::Invocation(why).outcome(&job.fun, "");
    let mut returned = build(job, outcome.retcode, Packed::pack(&outcome.value));
    if arguments + returned.payload.as_bytes().len() > limit {
        returned.fun_args = no_arguments();
    }
    returned
}

fn no_arguments() -> PackedArguments {
    Arguments {
        positional: vec![Value::from("(arguments too large to be returned)")],
        named: Vec::new(),
    }
    .pack()
}
