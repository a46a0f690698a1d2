//! `test`: checks that the minion answers.

use std::time::Duration;

use saline_data::Value;
use saline_functions::{Failure, Mapping, function};

use crate::{Functions, JobContext, Outcome};

pub(super) const FUNCTIONS: Functions =
    &[&PING, &ECHO, &ARG, &SLEEP, &VERSION, &RETCODE, &EXCEPTION];

/// Returns `True` as soon as the minion runs jobs. No ICMP packet is sent.
///
/// CLI Example:
///
///     saline '*' test.ping
#[function]
fn ping(_: &JobContext<'_>) -> bool {
    true
}

/// Returns its argument unchanged: it shows what arrives at a minion.
///
/// CLI Example:
///
///     saline '*' test.echo 'one two'
#[function]
fn echo(_: &JobContext<'_>, text: Value) -> Value {
    text
}

/// Returns all arguments as the minion reads them: those by position below `args`, those by name below `kwargs`.
///
/// CLI Example:
///
///     saline '*' test.arg 1 two 3.1 txt=hello wow='{a: 1, b: [2, 3]}'
#[function]
fn arg(_: &JobContext<'_>, #[args] args: Vec<Value>, #[kwargs] kwargs: Mapping) -> Value {
    Value::map([("args", Value::List(args)), ("kwargs", Value::Map(kwargs))])
}

/// Waits for `length` seconds, fractions included, and returns `True`. `saltutil.kill_job` ends the wait.
///
/// CLI Example:
///
///     saline '*' test.sleep 20
#[function]
fn sleep(job: &JobContext<'_>, length: Duration) -> Result<bool, Failure> {
    job.wait(length)?;
    Ok(true)
}

/// Returns the version of Saline on the minion.
///
/// CLI Example:
///
///     saline '*' test.version
#[function]
fn version(_: &JobContext<'_>) -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns `True` with the retcode `code`, so that a script can try out how it treats failures.
///
/// CLI Example:
///
///     saline '*' test.retcode 42
#[function]
fn retcode(_: &JobContext<'_>, #[default(42)] code: i64) -> Outcome {
    Outcome::new(true, code)
}

/// Fails as a function does that meets an unforeseen error, with this message.
///
/// CLI Example:
///
///     saline '*' test.exception 'the disk is on fire'
#[function]
fn exception(
    _: &JobContext<'_>,
    #[default("Test Exception")] message: String,
) -> Result<Outcome, Failure> {
    Err(Failure::Exception(message))
}
