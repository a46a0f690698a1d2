//! `cache`: what the master keeps of its minions.

use saline_data::printable::number_of;
use saline_data::{Packed, Value};
use saline_functions::{Failure, function};
use saline_messages::MinionId;
use saline_targeting::{Grains as _, Target, TargetKind};

use super::error::too_large;
use super::pillar::compiled;
use super::run::Run;
use super::task::MAX_RETURN;
use super::{Functions, Returned};
use crate::pillar::AskedEnvironments;

pub(super) const FUNCTIONS: Functions = &[
    &CLEAR_ALL,
    &CLEAR_MINE,
    &CLEAR_MINE_FUNC,
    &GRAINS,
    &MINE,
    &PILLAR,
];

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

/// Returns everything that the minions of a target have left in the mine, by minion and name.
///
/// CLI Example:
///
///     saline-run cache.mine
///     saline-run cache.mine 'web*'
#[function]
async fn mine(
    run: &Run,
    #[default("*")] tgt: String,
    #[default("glob")] tgt_type: TargetKind,
) -> Result<Returned, Failure> {
    let minions = minions(run, tgt, tgt_type, false).await?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for id in minions {
        let of_minion = run.parts.mine.of(&id).await?;
        bytes += of_minion
            .iter()
            .map(|(_, value)| value.as_bytes().len())
            .sum::<usize>();
        if bytes > MAX_RETURN {
            return Err(mine_too_large());
        }
        if !of_minion.is_empty() {
            entries.push((id.to_string(), Packed::map(of_minion)));
        }
    }
    Ok(Packed::map(entries).into())
}

/// Returns the pillars of the minions of a target, by minion, as `pillar.show_pillar` shows each: compiled now, with masked values, and
/// what went wrong under `_errors`.
///
/// CLI Example:
///
///     saline-run cache.pillar
///     saline-run cache.pillar 'web*'
#[function]
async fn pillar(
    run: &Run,
    #[default("*")] tgt: String,
    #[default("glob")] tgt_type: TargetKind,
) -> Result<Returned, Failure> {
    let minions = minions(run, tgt, tgt_type, false).await?;
    let (mut entries, mut bytes, mut success) = (Vec::with_capacity(minions.len()), 0, true);
    for id in minions {
        let asked = AskedEnvironments::default();
        let (shown, compiles) = compiled(run, &id, &asked, false).await?;
        success &= compiles;
        let shown = Packed::pack(&shown);
        bytes += shown.as_bytes().len();
        if bytes > MAX_RETURN {
            return Err(too_large(
                "the pillars of these minions",
                "choose fewer minions",
            ));
        }
        entries.push((id.to_string(), shown));
    }
    Ok(Returned {
        success,
        ..Packed::map(entries).into()
    })
}

/// Returns that the values of some minions in the mine are too large for a return.
pub(super) fn mine_too_large() -> Failure {
    too_large("the values of these minions", "choose fewer minions")
}

/// Forgets what the minions of a target have left in the mine. A minion leaves it again when it runs its `mine_functions` next.
/// Returns True. With `test=True` forgets nothing, and returns the minions.
///
/// CLI Example:
///
///     saline-run cache.clear_mine 'web1'
#[function(changes)]
async fn clear_mine(
    run: &Run,
    #[default("*")] tgt: String,
    #[default("glob")] tgt_type: TargetKind,
    #[default(false)] test: bool,
) -> Result<Returned, Failure> {
    forget_in_mine(run, tgt, tgt_type, None, test).await
}

/// Forgets one value that the minions of a target have left in the mine. Returns True. With `test=True` forgets nothing, and
/// returns the minions.
///
/// clear_mine_func_flag
///     The name of the value: a function, or an alias.
///
/// CLI Example:
///
///     saline-run cache.clear_mine_func 'web*' clear_mine_func_flag=network.ip_addrs
#[function(changes)]
async fn clear_mine_func(
    run: &Run,
    #[default("*")] tgt: String,
    clear_mine_func_flag: Option<String>,
    #[default("glob")] tgt_type: TargetKind,
    #[default(false)] test: bool,
) -> Result<Returned, Failure> {
    let Some(name) = clear_mine_func_flag else {
        let why = "clear_mine_func_flag is missing: the name of the value to forget";
        return Err(Failure::Invocation(why.to_owned()));
    };
    forget_in_mine(run, tgt, tgt_type, Some(&name), test).await
}

/// Forgets what one minion has left in the mine.
///
/// # Errors
/// When it may be there still.
async fn forget_one(run: &Run, id: &MinionId, name: Option<&str>) -> Result<(), Failure> {
    run.parts.mine.forget(id, name).await.map_err(|error| {
        Failure::Execution(format!(
            "the mine still has values of {id}, and perhaps of minions after it: {error}; run the same command again"
        ))
    })
}

async fn forget_in_mine(
    run: &Run,
    tgt: String,
    tgt_type: TargetKind,
    name: Option<&str>,
    test: bool,
) -> Result<Returned, Failure> {
    let minions = minions(run, tgt, tgt_type, false).await?;
    if test {
        return Ok(Value::texts(minions.iter().map(MinionId::as_str)).into());
    }
    for id in &minions {
        forget_one(run, id, name).await?;
    }
    tracing::info!(
        "{}: forgot {} of {} in the mine",
        run.principal.log_name(),
        name.unwrap_or("everything"),
        number_of(minions.len(), "minion")
    );
    Ok(Value::Bool(true).into())
}

/// Forgets the grains of the minions of a target, and what they have left in the mine. A minion reports its grains again when it
/// connects or collects them (`saltutil.refresh_grains`); until then no target by grains includes it, unless minions of which no
/// grains are known are asked for. Returns True. With `test=True` forgets nothing, and returns the minions.
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
        forget_one(run, id, None).await?;
    }
    tracing::info!(
        "{}: forgot the grains of {}, and what they left in the mine",
        run.principal.log_name(),
        number_of(minions.len(), "minion")
    );
    Ok(Value::Bool(true).into())
}

/// Returns the minions that a target includes, if the principal has rules about all of them, and notes those that it
/// leaves out because they have reported no grains.
pub(super) async fn minions(
    run: &Run,
    expression: String,
    kind: TargetKind,
    include_unknown: bool,
) -> Result<Vec<MinionId>, Failure> {
    let target = Target { kind, expression };
    if target.has_pillar_terms() {
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
