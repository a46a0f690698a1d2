//! Measures the transports beside the bare libraries.

use std::process::ExitCode;

fn main() -> ExitCode {
    saline_bench::main(std::env::args_os(), saline_transports::registry())
}
