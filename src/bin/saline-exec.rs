//! Starts one command of a daemon, and ends with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    saline_exec::main()
}
