//! The programs that are contained in another one, which is each of them when it is started under its name: one build has all of a
//! system, with the same features.

use std::path::Path;
use std::process::ExitCode;

use saline_exec::Program;
use saline_modules::job_process;
use saline_protocol::transport::Registry;
use saline_render::process::RenderProgram;

/// Runs the program under whose name this process was started. Returns none if that is not a contained one. Daemons call
/// `before_daemon` first.
pub fn run(registry: &Registry, before_daemon: impl FnOnce()) -> Option<ExitCode> {
    // Daemons start it with its name as the first argument when it is contained.
    let first = std::env::args_os().nth(1);
    if first.is_some_and(|first| first == RenderProgram::NAME) {
        return Some(saline_render::process::main());
    }
    let name = std::env::args_os().next()?;
    let registry = || registry.clone();
    let words = std::env::args_os;
    let parameters_of = saline_minion::modules::parameters_of;
    Some(match Path::new(&name).file_name()?.to_str()? {
        "saline-master" => {
            before_daemon();
            saline_master::run_with(registry(), Program::this_one(&[]))
        }
        "saline-minion" => {
            before_daemon();
            saline_minion::run_with(registry(), Program::this_one(&[]))
        }
        "saline-api" => {
            before_daemon();
            saline_net_api::run(registry(), parameters_of)
        }
        "saline-exec" => saline_exec::main(),
        job_process::PROGRAM => job_process::main(),
        "saline" => operator(saline_cli::saline(words(), registry(), parameters_of)),
        "saline-key" => {
            let offline = |config: &_, request| saline_master::keys::offline(config, &request);
            operator(saline_cli::saline_key(words(), registry(), offline))
        }
        "saline-run" => operator(saline_cli::saline_run(words(), registry())),
        _ => return None,
    })
}

/// Runs a command of an operator.
#[tokio::main(flavor = "current_thread")]
async fn operator(command: impl Future<Output = ExitCode>) -> ExitCode {
    command.await
}
