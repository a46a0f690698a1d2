//! Finds out whether any minion of a job can know its functions, so that a mistyped name is told once and not by each minion.

use std::collections::BTreeSet;
use std::sync::Arc;

use saline_data::nearest;
use saline_data::printable::number_of;
use saline_messages::{MasterTime, MinionFunctions, MinionId};

use crate::sessions::Sessions;

/// The most modules that a refusal names: minions choose the names of their own ones.
const MAX_SHOWN: usize = 50;

/// Returns why a job is refused, or none if it is not. `fun` is a function, or several with commas between them. A job is refused if
/// one of them is known to none of the minions that would begin it. A minion that has not reported its functions may know any. If the
/// job `waits` for minions, those that are away count too.
pub(super) fn refusal(
    sessions: &Sessions,
    fun: &str,
    minions: &[MinionId],
    created: MasterTime,
    waits: bool,
) -> Option<String> {
    let mut unknown: Vec<&str> = fun.split(',').collect();
    let mut reported: Vec<Arc<MinionFunctions>> = Vec::new();
    let mut asked = Vec::new();
    for id in minions {
        if !waits && !sessions.is_offered(id, created) {
            continue;
        }
        asked.push(id);
        // Most orders name functions that the first minion knows, and most minions have the same functions.
        let functions = sessions.functions(id)?;
        if reported.iter().any(|known| Arc::ptr_eq(known, &functions)) {
            continue;
        }
        unknown.retain(|fun| !functions.may_know(fun));
        if unknown.is_empty() {
            return None;
        }
        reported.push(functions);
    }
    let place = match asked[..] {
        // No minion would begin it, as the answer to the order tells.
        [] => return None,
        [only] => only.to_string(),
        _ => format!("any of the {}", number_of(asked.len(), "minion")),
    };
    let known: BTreeSet<&str> = reported.iter().flat_map(|set| set.names()).collect();
    let told = unknown.iter().map(|fun| {
        let hint = hint(fun, &known);
        format!("'{fun}' is not available on {place}: {hint}")
    });
    Some(told.collect::<Vec<_>>().join("; "))
}

/// Returns which of the known functions was meant, or where to look.
fn hint(fun: &str, known: &BTreeSet<&str>) -> String {
    if let Some(near) = nearest(fun, known.iter().copied()) {
        return format!("did you mean {near}?");
    }
    let mut modules: Vec<&str> = known.iter().map(|name| module(name)).collect();
    modules.dedup();
    match module(fun) {
        module if modules.contains(&module) => {
            format!("saline '*' -d {module} lists the functions of this module")
        }
        _ => {
            let shown = &modules[..modules.len().min(MAX_SHOWN)];
            let more = match modules.len() - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("known are the modules {}{more}", shown.join(", "))
        }
    }
}

/// Returns the module of a function.
fn module(fun: &str) -> &str {
    fun.split_once('.').map_or(fun, |(module, _)| module)
}
