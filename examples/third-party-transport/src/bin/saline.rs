//! The command line, with this transport beside the built-in ones.

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let parameters_of = saline_minion::modules::parameters_of;
    saline_cli::saline(
        std::env::args_os(),
        saline_websocket::registry(),
        parameters_of,
    )
    .await
}
