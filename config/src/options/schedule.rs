//! The option `schedule`: jobs that run by the clock.

use saline_data::Value;
use saline_data::nearest;
use saline_data::yaml::{Content, Key, Node, YamlError};
use saline_schedule::{Entry, KEYWORDS, MAX_ENTRIES, Missed};

use crate::given::Given;
use crate::role::FleetRole;
use crate::{OptionDoc, Secrecy};

pub(super) const fn schedule<C: FleetRole>(help: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "schedule",
        secrecy: Secrecy::ByKeys,
        unit: "a mapping of names to jobs",
        default: "{}",
        help,
        read: |config, given| {
            let jobs = &mut config.schedule().jobs;
            for (name, entry) in read(given)? {
                match jobs.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => *known = entry,
                    None => jobs.push((name, entry)),
                }
            }
            match jobs.len() > MAX_ENTRIES {
                true => Err(given.refuse(format!("has more than {MAX_ENTRIES} jobs"))),
                false => Ok(()),
            }
        },
    }
}

pub(super) const fn schedule_missed<C: FleetRole>() -> OptionDoc<C> {
    OptionDoc {
        name: "schedule_missed",
        secrecy: Secrecy::Public,
        unit: "skip or run_once",
        default: "skip",
        help: "What becomes of jobs of the schedule that were due while the daemon was down: `skip` says in the log which \
               they were, `run_once` runs each of them once, however often it was due.",
        read: |config, given| {
            config.schedule().missed = match given.text("`skip` or `run_once`")? {
                "skip" => Missed::Skip,
                "run_once" => Missed::RunOnce,
                _ => return Err(given.wrong("`skip` or `run_once`")),
            };
            Ok(())
        },
    }
}

/// Reads the jobs of one file.
fn read(given: &Given<'_>) -> Result<Vec<(String, Entry)>, YamlError> {
    let entries = match &given.node.content {
        Content::Map(entries) => entries,
        Content::Scalar(Value::Null) => return Ok(Vec::new()),
        _ => return Err(given.wrong("a mapping of names to jobs")),
    };
    let read = |(key, node): &(Key, Node)| {
        let entry = Entry::read(&key.name, &Value::from(node.clone()));
        let entry = entry.map_err(|error| {
            let place = place(key, node, error.keyword.as_deref());
            let near = nearest(error.keyword.as_deref().unwrap_or_default(), KEYWORDS);
            let hint = match near.filter(|_| error.is_unknown) {
                Some(near) => format!("; did you mean {near:?}?"),
                None => String::new(),
            };
            place.error(format!("job {:?} of the schedule: {error}{hint}", key.name))
        })?;
        Ok((key.name.clone(), entry))
    };
    entries.iter().map(read).collect()
}

/// Returns the place of a keyword of a job, or of the job.
fn place(key: &Key, node: &Node, keyword: Option<&str>) -> saline_data::yaml::Position {
    if let (Content::Map(entries), Some(keyword)) = (&node.content, keyword)
        && let Some((found, _)) = entries.iter().find(|(known, _)| known.name == keyword)
    {
        return found.position;
    }
    key.position
}
