//! `saline`: run functions on minions.

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    saline_cli::saline(
        std::env::args_os(),
        saline_transports::registry(),
        saline_minion::modules::parameters_of,
    )
    .await
}
