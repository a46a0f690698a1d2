//! `mine`: what minions have left for other minions.

use std::collections::BTreeMap;

use saline_data::{Packed, Value};
use saline_functions::{Failure, function};
use saline_messages::{MAX_MINE_FUNCTIONS, is_mine_name};
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
    let (functions, is_one) = names(&fun)?;
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

/// Returns the names of an argument `fun`, and whether it names one by itself.
fn names(fun: &Value) -> Result<(Vec<String>, bool), Failure> {
    let wrong = || {
        Failure::Invocation(format!(
            "fun takes the name of a function or of an alias, or at most {MAX_MINE_FUNCTIONS} of them"
        ))
    };
    let (names, is_one): (Vec<String>, bool) = match fun {
        Value::Text(text) => {
            let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
            let is_one = names.len() == 1;
            (names, is_one)
        }
        Value::List(names) => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
            (names.collect::<Option<_>>().ok_or_else(wrong)?, false)
        }
        _ => return Err(wrong()),
    };
    let are_names = names.iter().all(|name| is_mine_name(name));
    match are_names && (1..=MAX_MINE_FUNCTIONS).contains(&names.len()) {
        true => Ok((names, is_one)),
        false => Err(wrong()),
    }
}
