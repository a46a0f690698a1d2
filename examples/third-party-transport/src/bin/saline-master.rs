//! The master, with this transport beside the built-in ones.

fn main() -> std::process::ExitCode {
    saline_master::run(saline_websocket::registry())
}
