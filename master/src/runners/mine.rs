//! `mine`: what minions have left for other minions.

use std::collections::BTreeMap;

use saline_data::{Packed, Value};
use saline_functions::{Failure, function};
use saline_messages::mine_names;
use saline_targeting::TargetKind;

use super::cache::{mine_too_large, minions};
use super::run::Run;
use super::task::MAX_RETURN;
use super::{Functions, Returned};
use crate::mine::MineError;

pub(super) const FUNCTIONS: Functions = &[&GET];

impl From<MineError> for Failure {
    fn from(error: MineError) -> Self {
        Self::Execution(error.to_string())
    }
}

/// Returns the values that the minions of a target have left in the mine, by minion. Neither `mine_get` nor `allow_tgt` keeps
/// them from operators.
///
/// fun
///     The name of the values: a function, or an alias. Of several, as a list or with commas between them, the return is a mapping of
///     each name to the values by minion.
///
/// CLI Example:
///
///     saline-run mine.get '*' network.ip_addrs
///     saline-run mine.get 'os:Debian' network.interfaces tgt_type=grain
#[function]
async fn get(
    run: &Run,
    tgt: String,
    fun: Value,
    #[default("glob")] tgt_type: TargetKind,
) -> Result<Returned, Failure> {
    let (functions, is_one) = mine_names(&fun).map_err(Failure::Invocation)?;
    let minions = minions(run, tgt, tgt_type, false).await?;
    let mine = &run.parts.mine;
    let found = mine.entries(minions, functions.clone(), MAX_RETURN).await?;
    let found = found.ok_or_else(mine_too_large)?;
    let mut by_function: BTreeMap<u32, Vec<(String, Packed)>> = BTreeMap::new();
    for entry in found {
        let entries = by_function.entry(entry.function).or_default();
        entries.push((entry.minion.to_string(), entry.value));
    }
    if is_one {
        let only = by_function.remove(&0).unwrap_or_default();
        return Ok(Packed::map(only).into());
    }
    let all = by_function.into_iter().filter_map(|(number, entries)| {
        let name = functions.get(usize::try_from(number).ok()?)?;
        Some((name.clone(), Packed::map(entries)))
    });
    Ok(Packed::map(all.collect::<Vec<_>>()).into())
}
