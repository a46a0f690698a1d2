//! Measures Saline: `cargo run --release --bin saline-bench`, explained in `docs/benchmarks.md` and
//! `docs/performance.md`.
//!
//! | module | holds |
//! |---|---|
//! | `arguments` | the command line of `saline-bench` |
//! | `transports` | each transport beside its bare library |
//! | `system` | a master, a swarm of minions, and the command line |
//! | `fleet` | the processes of a system: master, swarm, command line, HTTP API |
//! | `row` | a figure, as the table and the JSON show it |
//! | `http` | the HTTP API beside a master: logins, job starts, events |
//! | `targets` | how long a master takes to find the minions of a target |
//! | `runners` | how long a master takes to find jobs in its store |
//! | `swarm` | `saline-swarm`: many minions in one process |
//! | `process` | CPU time, memory, descriptors, load |

mod arguments;
mod fleet;
mod http;
mod process;
mod row;
mod runners;
mod swarm;
mod system;
mod targets;
mod transports;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use saline_protocol::transport::Registry;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use arguments::{Arguments, Command};

pub use swarm::main as swarm;

/// Whatever stops a measurement; it is printed and not decided by.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of a measurement.
type Result<T, E = Failure> = std::result::Result<T, E>;

/// The whole of `saline-bench`: reads `arguments` and measures what `registry` has.
pub fn main(arguments: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    // As the daemons do: otherwise the allocator gives back, and requests once more, the buffers of every burst.
    saline_daemon::give_large_memory_back();
    let outcome = match Arguments::parse_from(arguments).command {
        Command::Transports(wanted) => transports::run(wanted, &registry),
        Command::System(wanted) => system::run(wanted, registry),
        Command::Targets(wanted) => targets::run(&wanted),
        Command::Http(wanted) => http::run(&wanted, &registry),
        Command::Runners(wanted) => runners::run(&wanted, &registry),
        Command::ClientProcess { spec } => transports::client_process(&spec, registry),
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
