//! The list of skips that a backend has checked in, so that a new one is seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};

use crate::{Backend, requirements};

/// A trial beside the requirements: the skips are those of the list, if there is one.
pub(crate) fn trial(backend: &Arc<dyn Backend>) -> Option<Trial> {
    let listed = backend.skips()?;
    let backend = Arc::clone(backend);
    Some(Trial::test("skips::as_checked_in", move || {
        compare(backend.as_ref(), listed).map_err(Failed::from)
    }))
}

/// Says every line that should be there and is not, or the other way round.
fn compare(backend: &dyn Backend, listed: &str) -> Result<(), String> {
    let declared: BTreeMap<_, _> = requirements::all()
        .filter_map(|own| Some((own.id, own.skipped_by_declaration(backend)?)))
        .collect();
    let lines = listed.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let listed: BTreeMap<_, _> = lines
        .map(|line| {
            let (id, reason) = line.split_once(' ').unwrap_or((line, ""));
            (id, reason.trim())
        })
        .collect();
    let new = declared.iter().filter(|(id, _)| !listed.contains_key(*id));
    let new = new.map(|(id, reason)| format!("not on the list: {id} {reason}"));
    let stale = listed.iter().filter(|(id, _)| !declared.contains_key(*id));
    let stale = stale.map(|(id, reason)| format!("no skip any more: {id} {reason}"));
    let wrong: Vec<_> = new.chain(stale).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the skips are not those that are checked in:\n{}",
        wrong.join("\n")
    ))
}
