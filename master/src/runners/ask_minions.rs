//! Has minions run a function for a runner, and waits for what they return.

use saline_data::Value;
use saline_data::printable::number_of;
use saline_functions::Failure;
use saline_messages::{Arguments, BatchRequest, PublishRequest, RequestId, StoredReturn};
use saline_targeting::Target;

use super::job_report::{self, State};
use super::run::Run;

/// Publishes a job for all minions of `target` at once, and waits for those that are present, at most for the
/// master's `timeout`. Returns what came by then, and notes that others did not answer, with what follows from that;
/// none when no minion matches.
pub(super) async fn ask_minions(
    run: &Run,
    target: Target,
    fun: &str,
    arguments: Vec<Value>,
    consequence: &str,
) -> Result<Option<Vec<StoredReturn>>, Failure> {
    let arguments = Arguments {
        positional: arguments,
        named: Vec::new(),
    };
    let request_id = RequestId::random();
    let request = PublishRequest {
        arg: arguments.pack(),
        batch: BatchRequest {
            // All are asked at once, also where jobs for many are made batches.
            safe_limit: Some(0),
            ..BatchRequest::default()
        },
        ..PublishRequest::new(
            request_id.map_err(|error| Failure::Execution(error.to_string()))?,
            target,
            fun,
            run.user.clone(),
        )
    };
    let publish = &run.parts.publish;
    let published = publish.carry_out(&run.principal, request).await?;
    let Some(jid) = published.jid else {
        return Ok(None);
    };
    let waits = |run: &Run, (minion, state): &State| !state.is_final() && run.is_alive(minion);
    let until = job_report::patience(run);
    let states = job_report::settled_states(run, &jid, until, waits).await?;
    let mut silent = states.iter().filter(|state| waits(run, state));
    let returns = job_report::returns(run, &jid).await?;
    if let Some((first, _)) = silent.next() {
        run.note(format!(
            "{} did not answer in time, {first} among them: {consequence}",
            number_of(silent.count() + 1, "minion")
        ));
    } else if returns.is_empty() {
        run.note(format!("no minion is connected: {consequence}"));
    }
    Ok(Some(returns))
}
