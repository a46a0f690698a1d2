//! The HTTP API.

use std::process::ExitCode;

use saline_minion::modules::parameters_of;

fn main() -> ExitCode {
    saline_net_api::run(saline_transports::registry(), parameters_of)
}
