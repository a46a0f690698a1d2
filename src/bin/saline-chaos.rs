//! Injects faults into a running system, and checks what it told and stored.

#[path = "../contained_programs.rs"]
mod contained_programs;

use std::path::Path;
use std::process::ExitCode;

/// The daemons and commands of the system are this program under their names.
fn main() -> ExitCode {
    let registry = saline_transports::registry();
    let name = std::env::args_os().next().unwrap_or_default();
    if Path::new(&name).file_name() == Some(saline_testing::nats_server::NAME.as_ref()) {
        return saline_chaos::nats_server(std::env::args_os());
    }
    contained_programs::run(&registry, saline_chaos::end_with_parent)
        .unwrap_or_else(|| saline_chaos::main(std::env::args_os(), registry))
}
