//! The HTTP API.

use std::process::ExitCode;

fn main() -> ExitCode {
    saline_net_api::run(saline_transports::registry())
}
