//! Measures the transports beside the bare libraries doing the same work in the same run.
//!
//! | file | holds |
//! |---|---|
//! | `arguments.rs` | the command line |
//! | `plan.rs` | what is measured, and with how much |
//! | `side.rs` | the two halves of a measurement, whatever they run on |
//! | `halves.rs` | makes the halves of a measurement |
//! | `contract.rs` | both halves through the contract |
//! | `bare/` | both halves over the bare libraries |
//! | `server_process.rs` | one measurement, seen from the serving half |
//! | `client_process.rs` | the other half, in a process of its own |
//! | `flow_limit.rs` | how far a publisher may be ahead, and what was lost |
//! | `report.rs` | medians, the table and the JSON |
//!
//! The serving half and the clients are two processes, as a master and its minions are: the second
//! is this program again. Only `inproc`, which does not leave its process, has both in one.

mod arguments;
mod bare;
mod client_process;
mod contract;
mod flow_limit;
mod halves;
mod plan;
mod report;
mod server_process;
mod side;

use saline_protocol::transport::Registry;

use crate::Result;
use saline_daemon::raise_descriptors;

pub(crate) use arguments::TransportsArguments;
pub(crate) use client_process::main as client_process;

/// Measures what is `arguments` of the transports in `registry`, and prints it.
pub(crate) fn run(arguments: TransportsArguments, registry: &Registry) -> Result<()> {
    let plan = arguments.check(registry)?;
    raise_descriptors()?;
    report::run(&plan, registry)
}
