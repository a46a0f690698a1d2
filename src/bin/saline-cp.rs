//! `saline-cp`: copies files of this machine to minions.

use std::ffi::OsString;
use std::process::ExitCode;

use saline_cli::Program;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let registry = saline_transports::registry();
    if let Some(code) = saline_cli::complete(Program::Cp, &words, &registry, Vec::new) {
        return code;
    }
    saline_cli::saline_cp(words, registry).await
}
