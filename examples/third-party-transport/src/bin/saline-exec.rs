//! Starts the commands of the minion, and has nothing to do with transports.

fn main() -> std::process::ExitCode {
    saline_exec::main()
}
