//! Injects faults into a running system, and checks what it told and stored.

use std::path::Path;
use std::process::ExitCode;

use saline_exec::Program;
use saline_render::process::RenderProgram;

/// The daemons and commands of the system are this program under their names, so that one build has all
/// of it, with the same features.
fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    let registry = saline_transports::registry();
    // As daemons start it when it is contained.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == RenderProgram::NAME)
    {
        return saline_render::process::main();
    }
    match name.to_str() {
        Some("saline-master") => {
            saline_chaos::end_with_parent();
            saline_master::run_with(registry, Program::this_one(&[]))
        }
        Some("saline-minion") => {
            saline_chaos::end_with_parent();
            saline_minion::run_with(registry, Program::this_one(&[]))
        }
        Some("saline-exec") => saline_exec::main(),
        Some(saline_modules::job_process::PROGRAM) => saline_modules::job_process::main(),
        Some("saline") => operator(saline_cli::saline(
            std::env::args_os(),
            registry,
            saline_minion::modules::parameters_of,
        )),
        Some("saline-key") => operator(saline_cli::saline_key(
            std::env::args_os(),
            registry,
            |config, request| saline_master::keys::offline(config, &request),
        )),
        Some("saline-run") => operator(saline_cli::saline_run(std::env::args_os(), registry)),
        _ => saline_chaos::main(std::env::args_os(), registry),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn operator(command: impl Future<Output = ExitCode>) -> ExitCode {
    command.await
}
