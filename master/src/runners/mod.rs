//! Runners: functions that run on the master, as tasks of it. A module is one file with a table of its
//! functions; `doc.runner` prints their documentation.
//!
//! | module | has |
//! |---|---|
//! | `task` | begins runs, ends them, and keeps their ends until they are read |
//! | `run_table` | the runs that are under way or have just ended |
//! | `run` | what a function knows of its run |
//! | `function`, `arguments` | a function, and the values of its parameters |
//! | `ask_minions` | a job for minions whose returns a function works with |
//! | `parts` | the parts of the master that functions work with |
//! | `job_report`, `job_filters` | jobs in the shapes of Salt's job cache, and the arguments that choose among them |
//! | `batch`, `cache`, `config`, `doc`, `event`, `jobs`, `manage`, `store` | the functions |
//!
//! The operator's program repeats the request that began a run: each time the master waits for some seconds, and
//! answers with the first part of the result when there is one. So a lost connection costs nothing, and a master
//! that was restarted begins the run anew, unless the function must act once (`event.send`): the store has the
//! request id of such a run before it acts. Asynchronous runs, and those whose operator left them, are rows of the
//! table `runs` beside the jobs, which no message of a minion can touch. The returns of minions are never unpacked
//! into values for the return of a runner: `Packed::map` builds a mapping of packed values.

mod arguments;
mod ask_minions;
mod batch;
mod cache;
mod config;
mod doc;
mod error;
mod event;
mod function;
mod job_filters;
mod job_report;
mod jobs;
mod manage;
mod parts;
mod run;
mod run_table;
mod store;
mod task;
#[cfg(test)]
mod tests;

use function::Function;

pub(crate) use parts::RunnerParts;
pub(crate) use run_table::{Phase, RunState};
pub use task::Runners;

/// The modules, each with its functions.
static MODULES: [(&str, &[Function]); 8] = [
    ("batch", batch::FUNCTIONS),
    ("cache", cache::FUNCTIONS),
    ("config", config::FUNCTIONS),
    ("doc", doc::FUNCTIONS),
    ("event", event::FUNCTIONS),
    ("jobs", jobs::FUNCTIONS),
    ("manage", manage::FUNCTIONS),
    ("store", store::FUNCTIONS),
];

/// The function that `saline-run` carries out itself, since it prints events for as long as it runs.
const STATE_EVENT: (&str, &str) = ("state.event", STATE_EVENT_DOC);

const STATE_EVENT_DOC: &str = "
Watch the master's event bus and print what it fires, until Ctrl-C or after a number of events.
`saline-run` does this itself: no run is begun on the master.

CLI Example:

.. code-block:: bash

    saline-run state.event
    saline-run state.event 'salt/job/*/ret/*' count=10 pretty=True
";

/// Returns every function with its full name, in alphabetical order.
fn functions() -> impl Iterator<Item = (String, &'static Function)> {
    MODULES.iter().flat_map(|(module, functions)| {
        let named = move |function| (full_name(module, function), function);
        functions.iter().map(named)
    })
}

fn full_name(module: &str, function: &Function) -> String {
    format!("{module}.{}", function.name)
}

/// Returns the function of this name.
fn find(fun: &str) -> Option<&'static Function> {
    let (module, name) = fun.split_once('.')?;
    let (_, functions) = MODULES.iter().find(|(known, _)| *known == module)?;
    functions.iter().find(|function| function.name == name)
}
