//! The master daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    saline_master::run(saline_transports::registry())
}
