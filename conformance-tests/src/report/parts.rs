//! One process for each requirement, as `cargo nextest` runs them: each leaves its part, and the one
//! that finds all of them writes the report.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::files::{folder, write};
use super::{Entry, Report};
use crate::{Backend, Verdict, requirements};

#[derive(Debug, Serialize, Deserialize)]
struct Part {
    /// The run that it belongs to: parts of an earlier one may lie beside it.
    run: String,
    entry: Entry,
}

/// Leaves `entries` as parts of `run`. The report, if they were the last that it waited for.
pub(crate) fn leave(
    backend: &dyn Backend,
    run: &str,
    entries: Vec<Entry>,
) -> io::Result<Option<Report>> {
    let folder = folder().join("parts").join(backend.name());
    std::fs::create_dir_all(&folder)?;
    for entry in entries {
        let path = folder.join(format!("{}.json", entry.id));
        let part = Part {
            run: run.to_owned(),
            entry,
        };
        write(&path, &serde_json::to_string(&part)?)?;
    }
    let mut all = Vec::new();
    for requirement in requirements::all() {
        if let Some(reason) = requirement.skipped(backend) {
            all.push(Entry::new(
                requirement,
                &Verdict::Skipped(reason),
                Duration::ZERO,
            ));
            continue;
        }
        let path = folder.join(format!("{}.json", requirement.id));
        let Ok(text) = std::fs::read_to_string(path) else {
            return Ok(None);
        };
        match serde_json::from_str::<Part>(&text) {
            Ok(part) if part.run == run => all.push(part.entry),
            _ => return Ok(None),
        }
    }
    let took = all.iter().map(|entry| entry.ms).sum();
    Ok(Some(Report::new(backend, Duration::from_millis(took), all)))
}
