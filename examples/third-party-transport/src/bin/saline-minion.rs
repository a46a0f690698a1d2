//! The minion, with this transport beside the built-in ones.

fn main() -> std::process::ExitCode {
    saline_minion::run(saline_websocket::registry())
}
