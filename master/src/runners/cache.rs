//! `cache`: what the master keeps of its minions.

use saline_data::{Packed, Value};
use saline_functions::{Failure, function};
use saline_messages::MinionId;
use saline_targeting::{Grains as _, Target, TargetKind};

use super::error::too_large;
use super::run::Run;
use super::task::MAX_RETURN;
use super::{Functions, Returned};

pub(super) const FUNCTIONS: Functions = &[&CLEAR_ALL, &GRAINS];

/// Returns the grains that the master has of the minions of a target, by minion. A minion that has reported none has an empty
/// mapping.
///
/// CLI Example:
///
///     saline-run cache.grains
///     saline-run cache.grains 'web*'
///     saline-run cache.grains 'os:Debian' tgt_type=grain
#[function]
async fn grains(
    run: &Run,
    #[default("*")] tgt: String,
    #[default("glob")] tgt_type: TargetKind,
) -> Result<Returned, Failure> {
    let target = Target {
        kind: tgt_type,
        expression: tgt,
    };
    let resolved = run.parts.targets.resolve(target).await?;
    let (mut entries, mut bytes) = (Vec::with_capacity(resolved.minions.len()), 0);
    for id in resolved.minions {
        let known = run.parts.grains.of(std::slice::from_ref(&id)).pop();
        let grains = known.flatten().map(|grains| Packed::pack(&grains.all()));
        let grains = grains.unwrap_or_else(|| Packed::pack(&Value::Map(Vec::new())));
        bytes += grains.as_bytes().len();
        if bytes > MAX_RETURN {
            return Err(too_large(
                "the grains of these minions",
                "choose fewer minions",
            ));
        }
        entries.push((id.to_string(), grains));
        // Thousands of minions are unpacked and packed here: other tasks get their turn.
        tokio::task::yield_now().await;
    }
    Ok(Packed::map(entries).into())
}

/// Forgets the grains of the minions of a target. A minion reports them again when it connects or collects them
/// (`saltutil.refresh_grains`); until then every target by grains may include it. Returns True. With `test=True` forgets
/// nothing, and returns the minions.
///
/// CLI Example:
///
///     saline-run cache.clear_all
///     saline-run cache.clear_all 'web1'
///     saline-run cache.clear_all 'web*' test=True
#[function(changes)]
async fn clear_all(
    run: &Run,
    #[default("*")] tgt: String,
    #[default("glob")] tgt_type: TargetKind,
    #[default(false)] test: bool,
) -> Result<Returned, Failure> {
    let target = Target {
        kind: tgt_type,
        expression: tgt,
    };
    let resolved = run.parts.targets.resolve(target).await?;
    if test {
        return Ok(Value::texts(resolved.minions.iter().map(MinionId::as_str)).into());
    }
    for id in &resolved.minions {
        run.parts.grains.forget(id);
    }
    tracing::info!(
        "{}: forgot the grains of {} minions",
        run.principal.log_name(),
        resolved.minions.len()
    );
    Ok(Value::Bool(true).into())
}
