//! Measures the transports beside the bare libraries, and a whole system.

#[path = "../contained_programs.rs"]
mod contained_programs;

use std::path::Path;
use std::process::ExitCode;

/// A measured system is this program under the names of its parts.
fn main() -> ExitCode {
    // The transport that stays inside a process is measured too, and no operator can choose it.
    let registry = saline_transports::registry().with(saline_inproc::InProc::new());
    if let Some(code) = contained_programs::run(&registry, || {}) {
        return code;
    }
    let name = std::env::args_os().next().unwrap_or_default();
    match Path::new(&name).file_name() {
        Some(name) if name == "saline-swarm" => saline_bench::swarm(std::env::args_os(), registry),
        _ => saline_bench::main(std::env::args_os(), registry),
    }
}
