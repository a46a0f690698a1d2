//! Injects seeded faults into real processes of Saline, and checks the books afterwards: `cargo run
//! --release --bin saline-chaos`, explained in `docs/chaos.md`.
//!
//! | module | holds |
//! |---|---|
//! | `arguments` | the command line |
//! | `plan` | which jobs and faults a seed gives, and when |
//! | `fleet` | the processes under test: master, minions, the operator's commands |
//! | `links` | a proxy between each minion and the master |
//! | `faults` | injecting and lifting |
//! | `power`, `disk` | losses of power, the small disk |
//! | `publisher`, `samplers` | jobs through the command line, and what is asked meanwhile |
//! | `file_orders`, `known_file` | files that minions fetch, and whether what arrived is whole |
//! | `timeline` | what was done, and when |
//! | `store`, `states`, `contents`, `evidence` | what was left behind |
//! | `books` | what must hold |
//! | `report` | the table and the verdicts |

mod arguments;
mod books;
mod contents;
mod disk;
mod error;
mod evidence;
mod faults;
mod file_orders;
mod fleet;
mod known_file;
mod links;
mod plan;
mod power;
mod publisher;
mod random;
mod report;
mod run;
mod sabotage;
mod samplers;
mod states;
mod store;
mod timeline;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Parser;
use rustix::process::{Signal, set_parent_process_death_signal};
use saline_protocol::transport::Registry;

use arguments::Arguments;
use error::{ChaosError, Result};
use plan::PlanSpec;

/// The exit code of a run that could not be carried out.
const NOT_CARRIED_OUT: u8 = 2;

/// Ends the calling process when its parent ends, so that no daemon outlives a run.
pub fn end_with_parent() {
    // Without it an orphan stays up until somebody ends it: a pity, and no reason not to start.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Becomes the server of NATS whose path and arguments this process has got, and which ends when its parent does.
pub fn nats_server(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    end_with_parent();
    let Some(path) = arguments.nth(1) else {
        eprintln!("nats-server: the path of the server is missing");
        return ExitCode::FAILURE;
    };
    // It returns only when it has failed.
    let error = Command::new(&path).args(arguments).exec();
    eprintln!("{}: {error}", path.display());
    ExitCode::FAILURE
}

/// The whole of `saline-chaos`. The calling process must have one thread.
pub fn main(arguments: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    let arguments = Arguments::parse_from(arguments);
    match run_and_report(&arguments, registry) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("saline-chaos: {error}");
            ExitCode::from(NOT_CARRIED_OUT)
        }
    }
}

/// Returns whether every book balances.
fn run_and_report(arguments: &Arguments, registry: Registry) -> Result<bool> {
    if arguments.sabotage.is_some() && !cfg!(feature = "chaos") {
        return Err(ChaosError::Command(
            "--sabotage is not possible here: the daemons were built without the feature `chaos` \
             (cargo run --features chaos)"
                .to_owned(),
        ));
    }
    let seed = arguments.seed.unwrap_or_else(drawn_seed);
    // Who reads this may have seen enough, which is no reason to panic.
    let _ = writeln!(
        std::io::stdout(),
        "saline-chaos --transport {} --seconds {} --minions {} --heartbeat {} --seed {seed}{}",
        arguments.transport.name(),
        arguments.length().as_secs_f64(),
        arguments.minions,
        arguments.heartbeat().as_secs_f64(),
        match arguments.sabotage {
            Some(sabotage) => format!(" --sabotage {}", sabotage.name()),
            None => String::new(),
        }
    );
    let plan = plan::generate(&PlanSpec {
        seed,
        length: arguments.length(),
        minions: usize::from(arguments.minions),
        sabotage: arguments.sabotage,
        with_nodes: arguments.transport == arguments::Transport::Nats,
        only: arguments.only.clone(),
    });
    if arguments.show_plan {
        let _ = write!(std::io::stdout(), "{}", report::plan(&plan));
        return Ok(true);
    }
    // Before there are threads. Where it is forbidden, mounting fails too, and tells why.
    let own_mounts = disk::own_mounts();
    let root = tempfile::Builder::new()
        .prefix("saline-chaos-")
        .tempdir()
        .map_err(ChaosError::at(&std::env::temp_dir()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(ChaosError::Runtime)?;
    let done = runtime.block_on(run::carry_out(
        arguments,
        &plan,
        registry,
        root.path(),
        own_mounts,
    ));
    runtime.shutdown_background();
    if arguments.keep {
        let _ = writeln!(std::io::stdout(), "kept: {}", root.keep().display());
    }
    let (evidence, books) = done?;
    let _ = write!(std::io::stdout(), "{}", report::text(&evidence, &books));
    if let Some(path) = &arguments.json {
        let json = report::json(arguments, seed, &evidence, &books);
        std::fs::write(path, format!("{json:#}\n")).map_err(ChaosError::at(path))?;
    }
    Ok(books.iter().all(books::Book::balances))
}

/// Returns a seed from the clock, short enough to be typed.
fn drawn_seed() -> u64 {
    use saline_protocol::transport::Clock;
    let now = Clock.wall().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_micros() as u64 % 1_000_000
}
