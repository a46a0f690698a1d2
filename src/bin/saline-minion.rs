//! The minion daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    saline_minion::run(saline_transports::registry())
}
