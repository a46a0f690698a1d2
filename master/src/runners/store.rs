//! `store`: copies and checks the job store. They may take minutes.

use std::time::Duration;

use saline_data::Value;
use saline_messages::{StoreBackup, StoreCheck};

use super::error::RunnerError;
use super::function::{Function, Returned};
use super::run::Run;

type Result<T, E = RunnerError> = std::result::Result<T, E>;

/// How long the functions may take.
const TIME: Duration = Duration::from_secs(24 * 3600);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("backup", BACKUP, |run, _| Box::pin(backup(run))).with_time(TIME),
    Function::new("check", CHECK, |run, _| Box::pin(check(run))).with_time(TIME),
];

const BACKUP: &str = "
Copy the job store while it is in use into a new folder of the master, and return where the copy is.

CLI Example:

.. code-block:: bash

    saline-run store.backup
";

async fn backup(run: &Run) -> Result<Returned> {
    let StoreBackup {
        folder,
        files,
        bytes,
    } = run.parts.jobs.back_up().await?;
    tracing::info!("copied {files} files of {bytes} bytes to {folder}");
    let entries = [
        ("folder", Value::from(folder)),
        ("files", Value::from(files)),
        ("bytes", Value::from(bytes)),
    ];
    Ok(Value::map(entries).into())
}

const CHECK: &str = "
Read all of the job store while it is in use, and return how much is in it and how many problems it has.

CLI Example:

.. code-block:: bash

    saline-run store.check
";

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
