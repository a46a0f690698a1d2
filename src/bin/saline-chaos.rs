//! Injects faults into a running system, and checks what it told and stored.

#[path = "../contained_programs.rs"]
mod contained_programs;

use std::process::ExitCode;

/// The daemons and commands of the system are this program under their names.
fn main() -> ExitCode {
    let registry = saline_transports::registry();
    contained_programs::run(&registry, saline_chaos::end_with_parent)
        .unwrap_or_else(|| saline_chaos::main(std::env::args_os(), registry))
}
