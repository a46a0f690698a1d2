//! Whether the minion has the functions that its schedule and its mine run.

use saline_config::MineFunction;
use saline_functions::Failure;
use saline_schedule::Entry;

use crate::{JobContext, Modules, Outcome};

impl Modules {
    /// Returns a line about each of these jobs of a schedule whose function the minion does not have. Asks no executable which
    /// functions it has. Blocks on the disk.
    pub fn unknown_in_schedule(&self, jobs: &[(String, Entry)]) -> Vec<String> {
        let unknown = jobs.iter().filter_map(|(name, entry)| {
            let why = self.unknown(&entry.function)?;
            Some(format!("job {name:?} of the schedule: {why}"))
        });
        unknown.collect()
    }

    /// Returns a line about each of these functions of the mine that the minion does not have. Asks no executable which functions it
    /// has. Blocks on the disk.
    pub fn unknown_in_mine(&self, functions: &[MineFunction]) -> Vec<String> {
        let unknown = functions.iter().filter_map(|function| {
            let why = self.unknown(function.runs())?;
            Some(match &function.function {
                Some(_) => format!("{:?} of mine_functions: {why}", function.name),
                None => format!("mine_functions: {why}"),
            })
        });
        unknown.collect()
    }

    /// Returns why the minion does not have a function; none if it has it, or may have it in an executable.
    fn unknown(&self, fun: &str) -> Option<String> {
        let (module, _) = fun.split_once('.')?;
        let may_have_it = !self.is_built_in(module) && self.executables.path(module).is_some();
        let is_known = self.registry.get(fun).is_some() || may_have_it;
        (!is_known).then(|| text(&self.not_available(fun)))
    }

    /// Checks the function of a job that somebody puts into the schedule. Returns why it cannot run yet, if the minion may have it
    /// later: with a module of the operator's own, or with a program that the machine lacks.
    ///
    /// # Errors
    /// When the minion has its module, and this lacks the function.
    pub(crate) fn check_scheduled(
        &self,
        job: &JobContext<'_>,
        fun: &str,
    ) -> Result<Option<String>, Failure> {
        let context = JobContext {
            function: fun,
            ..*job
        };
        let why = match self.find(&context) {
            Ok(_) => return Ok(None),
            Err(outcome) => text(&outcome),
        };
        let (module, _) = fun.split_once('.').unwrap_or((fun, ""));
        let may_be_added = !self.is_built_in(module) && self.executables.path(module).is_none();
        let may_come = self.absent.contains_key(module) || may_be_added;
        match may_come {
            true => Ok(Some(why)),
            false => Err(Failure::Invocation(why)),
        }
    }
}

/// Returns the text of an outcome that says why there is no function.
fn text(outcome: &Outcome) -> String {
    outcome.value.as_str().unwrap_or_default().to_owned()
}
