//! Runs one job of a minion, and outlives the minion.

use std::process::ExitCode;

fn main() -> ExitCode {
    saline_modules::job_process::main()
}
