//! `cache`: what the master keeps of its minions.

use saline_data::{Packed, Value};
use saline_targeting::Grains as _;

use super::arguments::BoundArguments;
use super::error::RunnerError;
use super::function::{Function, Returned};
use super::run::Run;
use super::task::MAX_RETURN;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("clear_all", CLEAR_ALL, |run, given| {
        Box::pin(clear_all(run, given))
    })
    .with(0, &["tgt", "tgt_type"]),
    Function::new("grains", GRAINS, |run, given| Box::pin(grains(run, given)))
        .with(0, &["tgt", "tgt_type"]),
];

const GRAINS: &str = "
Return the grains that the master knows of the minions that a target includes, by minion; of all minions without
a target. Minions of which it knows none are empty.

CLI Example:

.. code-block:: bash

    saline-run cache.grains
    saline-run cache.grains 'web*'
    saline-run cache.grains 'os:Debian' tgt_type=grain
";

async fn grains(run: &Run, given: &BoundArguments) -> Result<Returned, RunnerError> {
    let resolved = run.parts.targets.resolve(given.target()?).await?;
    let (mut entries, mut bytes) = (Vec::with_capacity(resolved.minions.len()), 0);
    for id in resolved.minions {
        let known = run.parts.grains.of(std::slice::from_ref(&id)).pop();
        let grains = known.flatten().map(|grains| Packed::pack(&grains.all()));
        let grains = grains.unwrap_or_else(|| Packed::pack(&Value::Map(Vec::new())));
        bytes += grains.as_bytes().len();
        if bytes > MAX_RETURN {
            return Err(RunnerError::TooLarge {
                what: "the grains of these minions".to_owned(),
                most: MAX_RETURN,
                instead: "choose fewer minions",
            });
        }
        entries.push((id.to_string(), grains));
        // Thousands of minions are unpacked and packed here: other tasks get their turn.
        tokio::task::yield_now().await;
    }
    Ok(Packed::map(entries).into())
}

const CLEAR_ALL: &str = "
Forget what the master knows of the minions that a target includes, of all minions without a target: their
grains. A minion reports them again when it comes back or collects them anew (`saltutil.refresh_grains`); until
then a target by grains takes it for a minion that may match. Returns True.

CLI Example:

.. code-block:: bash

    saline-run cache.clear_all
    saline-run cache.clear_all 'web1'
";

async fn clear_all(run: &Run, given: &BoundArguments) -> Result<Returned, RunnerError> {
    let resolved = run.parts.targets.resolve(given.target()?).await?;
    for id in &resolved.minions {
        run.parts.grains.forget(id);
    }
    tracing::info!(
        "operator {}: forgot the grains of {} minions",
        run.operator,
        resolved.minions.len()
    );
    Ok(Value::Bool(true).into())
}
