//! The functions of a minion, and what they work with.
//!
//! Each file of `functions/` is one module. A function is a Rust function with the attribute
//! [`function`](saline_functions::function), and stands in the list `FUNCTIONS` of its module; [`Modules`] is the registry of
//! all. It gets a [`JobContext`]: its [job], and the [`Host`], which holds what it may use of the minion: the
//! [grains], the queue of [events](event_queue), and the way to run a [command]. What must not end with the minion runs in a
//! [job process](job_process).

mod accounts;
mod change;
pub mod command;
mod configured_functions;
pub mod event_queue;
mod executables;
mod function_changes;
mod functions;
pub mod grains;
mod hidden_values;
mod host;
pub mod job;
mod job_context;
pub mod job_process;
mod known_functions;
mod line_file;
pub mod local_events;
pub mod master_files;
mod merged_entries;
pub mod mine;
mod module;
mod modules;
mod mount_table;
mod outcome;
pub mod oversize_output;
mod pending_answer;
pub mod pillar;
pub mod planned_end;
mod prepared;
mod refused_returns;
mod signatures;
mod system_program;
#[cfg(test)]
mod tests;

pub use function_changes::FunctionChanges;
pub use host::Host;
pub use job_context::JobContext;
pub use module::Functions;
pub use modules::{LiveModules, Modules};
pub use outcome::{INTERRUPTED, Outcome, ended, ended_before_start, interrupted};
pub use pending_answer::{NotAnswered, PendingAnswer};
pub use prepared::Prepared;
pub use refused_returns::RefusedReturns;
pub use signatures::{function_names, parameters_of};
