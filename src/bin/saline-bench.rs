//! Measures the transports beside the bare libraries, and a whole system.

use std::path::Path;
use std::process::ExitCode;

/// A measured system is this program under the names of its parts, so that one build has all of it.
fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    // The transport that stays inside a process is measured too, and no operator can choose it.
    let registry = saline_transports::registry().with(saline_inproc::InProc::new());
    match name.to_str() {
        Some("saline-master") => saline_master::run(registry),
        Some("saline-swarm") => saline_bench::swarm(std::env::args_os(), registry),
        Some("saline") => saline_command_line(registry),
        _ => saline_bench::main(std::env::args_os(), registry),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn saline_command_line(registry: saline_protocol::transport::Registry) -> ExitCode {
    let parameters_of = saline_minion::modules::parameters_of;
    saline_cli::saline(std::env::args_os(), registry, parameters_of).await
}
