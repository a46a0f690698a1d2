//! `saline-run`: runs functions on the master.

use std::ffi::OsString;
use std::process::ExitCode;

use saline_cli::Program;
use saline_master::runners::function_names;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let registry = saline_transports::registry();
    if let Some(code) = saline_cli::complete(Program::Run, &words, &registry, function_names) {
        return code;
    }
    saline_cli::saline_run(words, registry).await
}
