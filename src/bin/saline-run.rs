//! `saline-run`: runs functions on the master.

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    saline_cli::saline_run(std::env::args_os(), saline_transports::registry()).await
}
