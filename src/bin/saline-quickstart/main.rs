//! A master and minions on this machine, to try Saline in a minute.
//!
//! The daemons and the commands it shows are this same program under their own names: it executes
//! itself with another `argv[0]`, so that one `cargo run` needs to build one binary.

#[path = "../../contained_programs.rs"]
mod contained_programs;
mod example;
mod fleet;
mod tour;

use std::io;
use std::process::ExitCode;

use clap::Parser;

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
    /// The transport between the master and its minions, other than nats; without it the default one
    #[arg(long, value_name = "NAME")]
    transport: Option<String>,
}

fn main() -> ExitCode {
    let registry = saline_transports::registry();
    if let Some(code) = contained_programs::run(&registry, fleet::end_with_parent) {
        return code;
    }
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

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
