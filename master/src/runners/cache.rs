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
/// mapping; a target by grains includes it with `include_unknown=True` alone.
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
    #[default(false)] include_unknown: bool,
) -> Result<Returned, Failure> {
    let minions = minions(run, tgt, tgt_type, include_unknown).await?;
    let (mut entries, mut bytes) = (Vec::with_capacity(minions.len()), 0);
    for id in minions {
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
/// (`saltutil.refresh_grains`); until then no target by grains includes it, unless minions of which no grains are known are
/// asked for. Returns True. With `test=True` forgets nothing, and returns the minions.
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
    let minions = minions(run, tgt, tgt_type, false).await?;
    if test {
        return Ok(Value::texts(minions.iter().map(MinionId::as_str)).into());
    }
    for id in &minions {
        run.parts.grains.forget(id);
    }
    tracing::info!(
        "{}: forgot the grains of {} minions",
        run.principal.log_name(),
        minions.len()
    );
    Ok(Value::Bool(true).into())
}

/// Returns the minions that a target includes, if the principal has rules about all of them, and notes those that it
/// leaves out because they have reported no grains.
async fn minions(
    run: &Run,
    expression: String,
    kind: TargetKind,
    include_unknown: bool,
) -> Result<Vec<MinionId>, Failure> {
    let target = Target { kind, expression };
    if target.names_pillar() {
        // What comes of the search would tell of values.
        run.check_minions(&target, &[]).await?;
    }
    let targets = &run.parts.targets;
    let resolved = targets.resolve(target.clone(), include_unknown).await?;
    let authorizer = &run.parts.authorizer;
    let without_grains = authorizer.known_to(&run.principal, resolved.without_grains);
    if let (false, Some(first)) = (include_unknown, without_grains.first()) {
        run.note(format!(
            "{} minions have reported no grains, {first} among them: the target does not include them",
            without_grains.len()
        ));
    }
    let without_pillar = authorizer.known_to(&run.principal, resolved.without_pillar);
    if let Some(first) = without_pillar.first() {
        run.note(format!(
            "the master has no pillar of {} minions, {first} among them: the target does not include them",
            without_pillar.len()
        ));
    }
    let minions = resolved.minions.into_ids();
    run.check_minions(&target, &minions).await?;
    Ok(minions)
}
