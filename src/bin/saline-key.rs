//! `saline-key`: accept, reject and delete the keys of minions.

use std::ffi::OsString;
use std::process::ExitCode;

use saline_cli::Program;
use saline_master::keys::offline;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let registry = saline_transports::registry();
    if let Some(code) = saline_cli::complete(Program::Key, &words, &registry, Vec::new) {
        return code;
    }
    let act = |config: &_, request| offline(config, &request);
    saline_cli::saline_key(words, registry, act).await
}
