//! Carries out the orders about files with the real commands.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::error::{ChaosError, Result};
use crate::fleet::{Operator, fetched, served};
use crate::known_file;
use crate::plan::{FileAct, FileOrder};

/// How many orders are under way at once.
const AT_ONCE: usize = 6;

/// Carries out the orders of a plan, at most [`AT_ONCE`] at a time.
#[derive(Debug)]
pub(crate) struct FileOrders {
    operator: Operator,
    slots: Semaphore,
    /// Ends every command that still runs.
    give_up: CancellationToken,
    /// The orders whose file was served, in the order of their numbers but for those that came at once.
    served: Mutex<Vec<FileOrder>>,
}

impl FileOrders {
    pub(crate) fn new(operator: Operator) -> Self {
        Self {
            operator,
            slots: Semaphore::new(AT_ONCE),
            give_up: CancellationToken::new(),
            served: Mutex::default(),
        }
    }

    /// Kills the commands that still run.
    pub(crate) fn give_up(&self) {
        self.give_up.cancel();
    }

    /// Returns the orders so far.
    pub(crate) fn ordered(&self) -> Vec<FileOrder> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<FileOrder>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the file of an order, and has it fetched. Returns when the command has ended, whatever came of it.
    pub(crate) async fn carry_out(&self, root: &Path, order: &FileOrder) -> Result<()> {
        let Ok(_slot) = self.slots.acquire().await else {
            return Ok(());
        };
        let file = served(root).join(order.name());
        self.serve(&file, order)?;
        let minion = format!("m{}", order.minion);
        let left = fetched(root, &minion).join(FileOrder::left_by(order.number));
        let left = left.display().to_string();
        let url = format!("salt://{}", order.name());
        let file = file.display().to_string();
        let (program, words) = match order.act {
            FileAct::Get => ("saline", vec![&minion, "cp.get_file", &url, &left]),
            FileAct::Cache => ("saline", vec![&minion, "cp.cache_file", &url]),
            FileAct::Copy => ("saline-cp", vec![minion.as_str(), &file, &left]),
        };
        let mut command = self.operator.command(program, &words);
        tokio::select! {
            ended = command.output() => ended.map(drop).map_err(|source| ChaosError::Start {
                program: program.to_owned(),
                source,
            }),
            () = self.give_up.cancelled() => Ok(()),
        }
    }

    /// Puts the file of an order in its place, unless that of a later order is there.
    fn serve(&self, file: &Path, order: &FileOrder) -> Result<()> {
        let mut ordered = self.lock();
        let is_later =
            |other: &FileOrder| other.name() == order.name() && other.number > order.number;
        if !ordered.iter().any(is_later) {
            known_file::replace(file, order.number, order.size)?;
        }
        ordered.push(order.clone());
        Ok(())
    }
}
