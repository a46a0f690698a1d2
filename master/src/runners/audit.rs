//! `audit`: the file with a line for every order.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::Functions;
use super::run::Run;

pub(super) const FUNCTIONS: Functions = &[&TAIL];

/// The largest number of lines that are returned.
const MAX_LINES: u64 = 10_000;

/// Returns the last lines of the audit file, the oldest first. A line is a JSON object: who, what, a digest of the arguments,
/// the minions, whether it was allowed, and by which rule.
///
/// n
///     The number of lines, at most 10,000.
///
/// CLI Example:
///
///     saline-run audit.tail
///     saline-run audit.tail 100
#[function]
async fn tail(run: &Run, #[default(10)] n: u64) -> Result<Value, Failure> {
    run.check_sees_all("audit.tail")?;
    let most = usize::try_from(n.min(MAX_LINES)).unwrap_or(usize::MAX);
    let lines = run.parts.audit.tail(most).await;
    let lines = lines.map_err(Failure::Execution)?;
    Ok(Value::texts(lines.iter().map(String::as_str)))
}
