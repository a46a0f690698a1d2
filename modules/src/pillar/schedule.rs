//! The jobs that a pillar has for the minion's schedule.

use saline_data::Value;
use saline_schedule::{Entry, MAX_ENTRIES};

/// The entry of a pillar that has the jobs.
const SCHEDULE: &str = "schedule";

/// Returns the jobs in the entries of a pillar. A job that cannot be one is left out, and the log says so without its values.
pub(super) fn jobs(entries: &Value) -> Vec<(String, Entry)> {
    let found = match entries.get(SCHEDULE) {
        Some(Value::Map(found)) => found.as_slice(),
        None | Some(Value::Null) => &[],
        Some(_) => {
            tracing::warn!("the schedule in the pillar is not a mapping of names to jobs");
            &[]
        }
    };
    if found.len() > MAX_ENTRIES {
        tracing::warn!(
            "the schedule in the pillar has {} jobs, of which the first {MAX_ENTRIES} count",
            found.len()
        );
    }
    let read = |(name, value): &(String, Value)| match Entry::read(name, value) {
        Ok(entry) => Some((name.clone(), entry)),
        // What is said of a value quotes it.
        Err(error) => {
            match error.keyword {
                Some(keyword) => tracing::warn!(
                    "job {name:?} of the schedule in the pillar is left out: its keyword {keyword:?} is wrong"
                ),
                None => tracing::warn!(
                    "job {name:?} of the schedule in the pillar is left out: it is not a job"
                ),
            }
            None
        }
    };
    found.iter().take(MAX_ENTRIES).filter_map(read).collect()
}
