//! `saline-key`: accept, reject and delete the keys of minions.

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    saline_cli::saline_key(
        std::env::args_os(),
        saline_transports::registry(),
        |config, request| saline_master::keys::offline(config, &request),
    )
    .await
}
