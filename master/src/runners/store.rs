//! `store`: copies and checks the job store. They may take minutes.

use std::path::PathBuf;

use saline_data::Value;
use saline_functions::{Failure, function};

use super::run::Run;
use super::{Functions, Returned};
use crate::jobs::{StoreBackup, StoreCheck};

type Result<T, E = Failure> = std::result::Result<T, E>;

pub(super) const FUNCTIONS: Functions = &[&BACKUP, &CHECK];

/// Copies the job store into a new folder of the master, and the kept events into `events` in that folder, and returns its path.
/// Both stay in use. Configuration is not copied: docs/operating.md lists what to back up.
///
/// pki
///     `True` also copies the keys, those of the master too, into a folder beside it. It is as secret as they are.
///
/// CLI Example:
///
///     saline-run store.backup
///     saline-run store.backup pki=True
#[function(seconds = 86_400)]
async fn backup(run: &Run, #[default(false)] pki: bool) -> Result<Returned> {
    let events = run.parts.durable.store().cloned();
    let copy_events = |folder: PathBuf| async move {
        match events {
            Some(events) => events.copy_into(folder.join("events")).await,
            None => Ok((0, 0)),
        }
    };
    let StoreBackup {
        folder,
        files,
        bytes,
    } = run.parts.jobs.back_up(copy_events).await?;
    tracing::info!("copied {files} files of {bytes} bytes to {folder}");
    let mut entries = vec![
        ("folder", Value::from(folder.as_str())),
        ("files", Value::from(files)),
        ("bytes", Value::from(bytes)),
    ];
    if pki {
        let beside = PathBuf::from(&folder);
        let copied = run
            .parts
            .keys
            .with_minions(move |keys| keys.copy_beside(&beside));
        let copied = match copied.await {
            Some(Ok(copied)) => copied.display().to_string(),
            Some(Err(error)) => {
                return Err(Failure::Execution(format!(
                    "the store is copied to {folder}, and the keys cannot be copied: {error}"
                )));
            }
            None => return Err(Failure::Execution("the key store failed".to_owned())),
        };
        tracing::info!("copied the keys to {copied}");
        entries.push(("pki", Value::from(copied)));
    }
    Ok(Value::map(entries).into())
}

/// Reads the whole job store, and returns how many jobs, returns and problems it has. The store stays in use.
///
/// CLI Example:
///
///     saline-run store.check
#[function(seconds = 86_400)]
async fn check(run: &Run) -> Result<Returned> {
    let StoreCheck {
        files,
        jobs,
        returns,
        problems,
    } = run.parts.jobs.check().await?;
    tracing::info!("{} problems of the job store", problems.len());
    for problem in &problems {
        run.note(format!("ERROR: {problem}"));
    }
    let counts = Value::map([
        ("files", Value::from(files)),
        ("jobs", Value::from(jobs)),
        ("returns", Value::from(returns)),
        ("problems", Value::from(problems.len() as u64)),
    ]);
    Ok(Returned {
        success: problems.is_empty(),
        ..Returned::from(counts)
    })
}
