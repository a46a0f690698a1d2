//! A master and minions on this machine, to try Saline in a minute.
//!
//! The daemons and the commands it shows are this same program under their own names: it executes
//! itself with another `argv[0]`, so that one `cargo run` needs to build one binary.

mod example;
mod fleet;
mod tour;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use saline_exec::Program;
use saline_render::process::RenderProgram;

/// Starts a master and minions as processes of their own on loopback, accepts their keys, runs a
/// few commands and shows what they print.
#[derive(Debug, Parser)]
#[command(name = "saline-quickstart", version)]
struct Arguments {
    /// End after the tour; without it the master and the minions stay up until Ctrl-C
    #[arg(long)]
    exit: bool,
    /// How many minions to start
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=200))]
    minions: u16,
    /// A worked example with minions, files and a tour of its own, instead of a few minions
    #[arg(long, value_name = "NAME", value_parser = example::NAMES, conflicts_with = "minions")]
    example: Option<String>,
    /// The transport between the master and its minions; without it the default one
    #[arg(long, value_name = "NAME")]
    transport: Option<String>,
}

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    let registry = saline_transports::registry();
    let contained = Program::this_one(&[]);
    // As daemons start it when it is contained.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == RenderProgram::NAME)
    {
        return saline_render::process::main();
    }
    match name.to_str() {
        Some("saline-master") => {
            fleet::end_with_parent();
            saline_master::run_with(registry, contained)
        }
        Some("saline-minion") => {
            fleet::end_with_parent();
            saline_minion::run_with(registry, contained)
        }
        Some("saline-exec") => saline_exec::main(),
        Some(saline_modules::job_process::PROGRAM) => saline_modules::job_process::main(),
        Some("saline") => operator(saline_cli::saline(
            std::env::args_os(),
            registry,
            saline_minion::modules::parameters_of,
        )),
        Some("saline-key") => operator(saline_cli::saline_key(
            std::env::args_os(),
            registry,
            |config, request| saline_master::keys::offline(config, &request),
        )),
        Some("saline-run") => operator(saline_cli::saline_run(std::env::args_os(), registry)),
        _ => {
            let arguments = Arguments::parse();
            match tour::run(&registry, &arguments) {
                Ok(()) => ExitCode::SUCCESS,
                // Whoever reads the output has seen enough.
                Err(error) if is_broken_pipe(&*error) => ExitCode::FAILURE,
                Err(error) => {
                    eprintln!("saline-quickstart: {error}");
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Runs a command of an operator.
fn operator(command: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => {
            eprintln!("saline-quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}
