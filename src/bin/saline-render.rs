//! Renders templates for the master, and has no way to anything else.

use std::process::ExitCode;

fn main() -> ExitCode {
    saline_render::process::main()
}
