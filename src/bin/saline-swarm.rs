//! Many minions in few processes, to load a master.

use std::process::ExitCode;

fn main() -> ExitCode {
    saline_bench::swarm(std::env::args_os(), saline_transports::registry())
}
