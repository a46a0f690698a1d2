//! The functions that Salt has for the schedules of other minions. Here a minion gives no orders to others, so these say what an
//! operator types instead.

use saline_data::{Value, json};
use saline_functions::{Failure, Mapping, function};

use super::scheduler;
use crate::JobContext;

/// Refuses to copy a job to other minions, since minions give each other no orders, and returns the command that does it on the
/// master.
///
/// name
///     The name of the job.
///
/// target
///     The minions that are to have it.
///
/// CLI Example:
///
///     saline '*' schedule.copy disk 'web*'
#[function(nonblocking, in_minion)]
#[expect(unused_variables, reason = "the parameters are Salt's")]
pub(super) fn copy(
    job: &JobContext<'_>,
    name: String,
    target: String,
    #[kwargs] further: Mapping,
) -> Result<Value, Failure> {
    Err(refused(job, &name, &target, ""))
}

/// Refuses to move a job to other minions, since minions give each other no orders, and returns the commands that do it on the
/// master.
///
/// The parameters are those of `schedule.copy`.
///
/// CLI Example:
///
///     saline '*' schedule.move disk 'web*'
#[function(nonblocking, in_minion)]
#[expect(unused_variables, reason = "the parameters are Salt's")]
pub(super) fn r#move(
    job: &JobContext<'_>,
    name: String,
    target: String,
    #[kwargs] further: Mapping,
) -> Result<Value, Failure> {
    let delete = format!(
        ", and then: saline {} schedule.delete {}",
        quoted(job.host.grains.id().as_str()),
        quoted(&name)
    );
    Err(refused(job, &name, &target, &delete))
}

fn refused(job: &JobContext<'_>, name: &str, target: &str, then: &str) -> Failure {
    let status = match scheduler(job) {
        Ok(scheduler) => scheduler.status(name),
        Err(failure) => return failure,
    };
    let Some(status) = status else {
        return Failure::Execution(format!("there is no job {name} in the schedule"));
    };
    let mut command = format!("saline {} schedule.add {}", quoted(target), quoted(name));
    if let Value::Map(keywords) = status.entry.to_value() {
        for (keyword, value) in &keywords {
            let keyword = match keyword.as_str() {
                "args" => "job_args",
                "kwargs" => "job_kwargs",
                "name" => continue,
                other => other,
            };
            let value = match value {
                Value::Text(text) => text.clone(),
                other => String::from_utf8_lossy(&json::line(other))
                    .trim_end()
                    .to_owned(),
            };
            command += &format!(" {keyword}={}", quoted(&value));
        }
    }
    Failure::Execution(format!(
        "a minion gives no orders to others; run on the master: {command}{then}"
    ))
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
