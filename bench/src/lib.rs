//! What the transports reach beside the bare libraries doing the same work in the same run:
//! `cargo run --release --bin saline-bench -- transports`, explained in `docs/benchmarks.md`.
//!
//! | file | holds |
//! |---|---|
//! | `arguments.rs` | the command line |
//! | `plan.rs` | what is measured, and with how much |
//! | `side.rs` | the two halves of a measurement, whatever they run on |
//! | `contract.rs` | both halves through the contract |
//! | `bare/` | both halves over the bare libraries |
//! | `server_process.rs` | one measurement, seen from the serving half |
//! | `client_process.rs` | the other half, in a process of its own |
//! | `pace.rs` | how far a publisher may be ahead, and what was lost |
//! | `process.rs` | CPU time, descriptors, load |
//! | `report.rs` | medians, the table and the JSON |
//!
//! The serving half and the clients are two processes, as a master and its minions are: the second
//! is this program again. Only `inproc`, which does not leave its process, has both in one.

mod arguments;
mod bare;
mod client_process;
mod contract;
mod pace;
mod plan;
mod process;
mod report;
mod server_process;
mod side;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use saline_protocol::transport::Registry;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use arguments::{Arguments, Command};

/// Whatever stops a measurement; it is printed and not decided by.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a measurement comes to.
type Result<T, E = Failure> = std::result::Result<T, E>;

/// The whole of `saline-bench`: reads `arguments` and measures what `registry` has.
pub fn main(arguments: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    let outcome = match Arguments::parse_from(arguments).command {
        Command::Transports(wanted) => wanted.check(&registry).and_then(|plan| {
            process::raise_descriptors();
            report::run(&plan, &registry)
        }),
        Command::ClientProcess { spec } => client_process::main(&spec, registry),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saline-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `work` on a runtime of so many workers, which both halves have whatever they run on.
fn on_workers<T: Send + 'static>(
    workers: usize,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let runtime = runtime(workers)?;
    let outcome = runtime.block_on(async {
        // On a worker, where everything else runs; the thread that blocks is a third.
        let mut working = JoinSet::new();
        working.spawn(work);
        match working.join_next().await {
            Some(outcome) => outcome?,
            None => Err("nothing was run".into()),
        }
    });
    runtime.shutdown_background();
    outcome
}

fn runtime(workers: usize) -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
}
