//! `saline`: run functions on minions.

use std::ffi::OsString;
use std::process::ExitCode;

use saline_cli::Program;
use saline_minion::modules::{function_names, parameters_of};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let registry = saline_transports::registry();
    if let Some(code) = saline_cli::complete(Program::Saline, &words, &registry, function_names) {
        return code;
    }
    saline_cli::saline(words, registry, parameters_of).await
}
