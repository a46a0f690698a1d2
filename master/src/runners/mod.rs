//! Runners and wheels: functions that run on the master, as tasks of it. A function is an `async` Rust function with the attribute
//! [`function`](saline_functions::function), and stands in the list `FUNCTIONS` of its module. Its future may be
//! dropped at any await: the run was ended, or took too long.
//!
//! | module | has |
//! |---|---|
//! | `task` | begins runs, ends them, and keeps their ends until they are read |
//! | `run_table` | the runs that are under way or have just ended |
//! | `run` | what a function knows of its run |
//! | `returned` | the return of a function |
//! | `ask_minions` | a job for minions whose returns a function works with |
//! | `parts` | the parts of the master that functions work with |
//! | `job_report`, `job_filters` | jobs in the shapes of Salt's job cache, and the types of the parameters that choose among them |
//! | `cached_jobs` | jobs that the store has no more, from the database that `master_job_cache` names |
//! | `audit`, `auth`, `batch`, `cache`, `clock`, `config`, `doc`, `event`, `fileserver`, `jobs`, `manage`, `mine`, `nats`, `pillar`, `reactor`, `state`, `store` | the functions |
//! | `wheels` | those about keys and the configuration, which clients of Salt call as `wheel` |
//!
//! The operator's program repeats the request that began a run: each time the master waits for some seconds, and
//! answers with the first part of the result when there is one. So a lost connection costs nothing, and a master
//! that was restarted starts the run again, unless the function must act once (`event.send`): the store has the
//! request id of such a run before it acts. Asynchronous runs, and those whose operator left them, are rows of the
//! table `runs` beside the jobs, which no message of a minion can touch. The returns of minions are never unpacked
//! into values for the return of a runner: `Packed::map` builds a mapping of packed values.

mod ask_minions;
mod audit;
mod auth;
mod batch;
mod cache;
mod cached_jobs;
mod clock;
mod config;
mod doc;
mod error;
mod event;
mod fileserver;
mod job_filters;
mod job_report;
mod jobs;
mod manage;
mod mine;
mod nats;
mod parts;
mod pillar;
mod reactor;
mod returned;
mod run;
mod run_table;
mod shown_returns;
mod state;
mod store;
mod task;
#[cfg(test)]
mod tests;
mod wheels;

use std::collections::BTreeSet;

use saline_data::nearest;
use saline_functions::{BoundArguments, Function, NamedModule, Registry, Signature};
use saline_messages::{ArgumentPlace, Arguments, RunKind};
use saline_schedule::Entry;

pub(crate) use parts::RunnerParts;
use returned::Returned;
use run::Run;
pub(crate) use run_table::{Phase, RunState};
pub use task::Runners;

/// The functions of one module.
type Functions = &'static [&'static Function<Run>];

/// The modules of every master.
const MODULES: [NamedModule<Run>; 17] = [
    ("audit", audit::FUNCTIONS),
    ("auth", auth::FUNCTIONS),
    ("batch", batch::FUNCTIONS),
    ("cache", cache::FUNCTIONS),
    ("clock", clock::FUNCTIONS),
    ("config", config::FUNCTIONS),
    ("doc", doc::FUNCTIONS),
    ("event", event::FUNCTIONS),
    ("fileserver", fileserver::FUNCTIONS),
    ("jobs", jobs::FUNCTIONS),
    ("manage", manage::FUNCTIONS),
    ("mine", mine::FUNCTIONS),
    ("nats", nats::FUNCTIONS),
    ("pillar", pillar::FUNCTIONS),
    ("reactor", reactor::FUNCTIONS),
    ("state", state::FUNCTIONS),
    ("store", store::FUNCTIONS),
];

static SIGNATURES: [Signature; Signature::count(&MODULES)] = Signature::all(&MODULES);

/// The functions of every master, by their kinds.
#[derive(Debug)]
struct MasterFunctions {
    runners: Registry<Run>,
    wheels: Registry<Run>,
}

impl MasterFunctions {
    fn built_in() -> Self {
        Self {
            runners: built_in(),
            wheels: wheels::built_in(),
        }
    }

    /// Returns the functions of one kind.
    fn of(&self, kind: RunKind) -> &Registry<Run> {
        match kind {
            RunKind::Runner => &self.runners,
            RunKind::Wheel => &self.wheels,
        }
    }

    /// Returns the function, with these arguments bound to its parameters.
    ///
    /// # Errors
    /// One line that says why it cannot be called so.
    fn bind(
        &self,
        (kind, fun): (RunKind, &str),
        mut arguments: Arguments,
        hidden: &[ArgumentPlace],
    ) -> Result<(&Function<Run>, BoundArguments), String> {
        let function = self.of(kind).get(fun);
        let function = function.ok_or_else(|| self.not_available(kind, fun))?;
        if kind == RunKind::Wheel {
            wheels::drop_match(function, &mut arguments);
        }
        let bound = function.bind_hiding(arguments, hidden);
        let bound = bound.map_err(|error| match kind {
            RunKind::Runner => task::told(&error.into(), kind, fun),
            // No command line calls wheels.
            RunKind::Wheel => task::told(&error.without_hint().into(), kind, fun),
        })?;
        Ok((function, bound))
    }

    /// Returns the message about a function that does not exist.
    fn not_available(&self, kind: RunKind, fun: &str) -> String {
        let functions = self.of(kind);
        let known = || functions.iter().map(|(name, _)| name);
        if let Some(near) = nearest(fun, known()) {
            return format!("'{fun}' is not available: did you mean {near}?");
        }
        let modules: BTreeSet<&str> = known().map(module_of).collect();
        let own = module_of(fun);
        match kind {
            RunKind::Runner if modules.contains(own) => format!(
                "'{fun}' is not available: saline-run -d {own} lists the functions of this module"
            ),
            _ => {
                let modules: Vec<&str> = modules.into_iter().collect();
                let modules = modules.join(", ");
                format!("'{fun}' is not available: known are the modules {modules}")
            }
        }
    }
}

/// Returns a line about each of these jobs of the master's schedule whose function is not a runner.
pub(crate) fn unknown_in_schedule(jobs: &[(String, Entry)]) -> Vec<String> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let functions = MasterFunctions::built_in();
    let unknown = jobs
        .iter()
        .filter(|(_, job)| functions.runners.get(&job.function).is_none());
    unknown
        .map(|(name, job)| {
            let why = functions.not_available(RunKind::Runner, &job.function);
            format!("job {name:?} of the schedule: {why}")
        })
        .collect()
}

/// Returns the module of a function.
fn module_of(fun: &str) -> &str {
    fun.split_once('.').map_or(fun, |(module, _)| module)
}

/// Returns the runners of every master.
fn built_in() -> Registry<Run> {
    let mut registry = Registry::default();
    for (module, functions) in MODULES {
        registry = registry.with(module, functions.iter().copied());
    }
    for (alias, fun) in manage::ALIASES {
        registry = registry.with_alias(alias, fun);
    }
    registry
}

/// Returns the full names of the functions of every master, in alphabetical order. A program that asks for nothing else
/// contains no function.
pub fn function_names() -> Vec<String> {
    let mut names: Vec<String> = SIGNATURES.iter().map(Signature::full_name).collect();
    names.extend(manage::ALIASES.map(|(alias, _)| format!("manage.{alias}")));
    names.sort_unstable();
    names
}
