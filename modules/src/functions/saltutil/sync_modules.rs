//! `saltutil.sync_modules`: brings the modules that the master has for all minions.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};
use saline_messages::{FileKind, FilePlace};

use super::super::file::deliver;
use crate::JobContext;
use crate::master_files::{FileCache, fetch, list};

/// The folder of an environment that has the modules.
const FOLDER: &str = "_modules";

/// The permissions of a module: nobody else changes it, and it can be run.
const MODE: u32 = 0o700;

/// The most modules.
const MAX_MODULES: usize = 256;

/// The names of environments: a list, or a text with commas between them.
#[derive(Debug, Clone)]
pub(crate) struct Environments(Vec<String>);

impl FromValue for Environments {
    const TAKES: &'static str = "the name of an environment, or a list of them";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            list @ Value::List(_) => Vec::from_value(list).map(Self),
            other => String::from_value(other)
                .map(|text| Self(text.split(',').map(|name| name.trim().to_owned()).collect())),
        }
    }
}

/// Brings the modules in `salt://_modules` to the minion: executables in any language, as those in `module_dirs`, whose
/// modules they do not replace. A module that is not on the master any more is removed. They are used at once, also by
/// jobs that run already. Returns when the master knows which modules there are.
///
/// saltenv
///     The environment, or several of them, of which the first that has a module counts. `base` if it is not given.
///
/// test
///     `True` only tells what would change.
///
/// Returns the modules that are new or have changed, as `modules.NAME`.
///
/// CLI Example:
///
///     saline '*' saltutil.sync_modules
///     saline '*' saltutil.sync_modules saltenv=dev,base
#[function(changes, in_minion)]
pub(super) fn sync_modules(
    job: &JobContext<'_>,
    #[default("base")] saltenv: Environments,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    sync(job, &saltenv, test)
}

/// Brings the modules of these environments, or only tells which would change. Returns when the master knows the functions that
/// there are then: it would refuse a job of a new one that is ordered after the return of this one.
pub(super) fn sync(
    job: &JobContext<'_>,
    environments: &Environments,
    test: bool,
) -> Result<Value, Failure> {
    let synced = bring(job, environments, test);
    // Also after an error, since some may have come. Beside a running minion nobody reports.
    if !test && job.host.has_bus {
        job.host.function_changes.note_and_wait();
    }
    synced
}

fn bring(job: &JobContext<'_>, environments: &Environments, test: bool) -> Result<Value, Failure> {
    let folder = saline_config::MinionConfig::synced_modules_in(&job.host.cache_dir);
    let failed = |why: std::io::Error| {
        Failure::Execution(format!(
            "modules cannot be put into {}: {why}",
            folder.display()
        ))
    };
    saline_private_files::create_folder(&folder).map_err(failed)?;
    let places = places(job, &environments.0)?;
    let cache = FileCache::open(&job.host.cache_dir)?;
    let mut changed = Vec::new();
    for place in &places {
        let (cached, _) = fetch(job, &cache, place)?;
        let name = name_of(place);
        let target = folder.join(name);
        if fs::read(&cached).ok() == fs::read(&target).ok() {
            continue;
        }
        if !test {
            let mut file = fs::File::open(&cached).map_err(failed)?;
            deliver(&mut file, &target, MODE, false)?;
        }
        changed.push(Value::from(format!("modules.{name}")));
    }
    if !test {
        let kept: BTreeSet<&str> = places.iter().map(name_of).collect();
        remove_others(&folder, &kept).map_err(failed)?;
    }
    Ok(Value::List(changed))
}

/// Finds the modules in these environments.
fn places(job: &JobContext<'_>, environments: &[String]) -> Result<Vec<FilePlace>, Failure> {
    let (mut places, mut names) = (Vec::new(), BTreeSet::new());
    for environment in environments {
        // An environment need not have modules.
        list(job, environment, FOLDER, |entry| {
            let name = entry.path.strip_prefix("_modules/").unwrap_or_default();
            let is_module = entry.kind == FileKind::File && !name.is_empty() && !name.contains('/');
            if is_module && names.insert(name.to_owned()) {
                places.push(FilePlace {
                    environment: environment.clone(),
                    path: entry.path,
                });
            }
            match places.len() > MAX_MODULES {
                true => Err(Failure::Execution(format!(
                    "there are more than {MAX_MODULES} modules"
                ))),
                false => Ok(()),
            }
        })?;
    }
    Ok(places)
}

fn name_of(place: &FilePlace) -> &str {
    place.path.rsplit('/').next().unwrap_or_default()
}

fn remove_others(folder: &Path, kept: &BTreeSet<&str>) -> std::io::Result<()> {
    for found in fs::read_dir(folder)? {
        let found = found?;
        let is_kept = found
            .file_name()
            .to_str()
            .is_some_and(|name| kept.contains(name));
        if !is_kept && found.file_type()?.is_file() {
            fs::remove_file(found.path())?;
        }
    }
    Ok(())
}
