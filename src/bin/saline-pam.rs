//! Checks names and passwords by PAM for the master, with the rights of root.

use std::process::ExitCode;

fn main() -> ExitCode {
    saline_pam::program::main()
}
