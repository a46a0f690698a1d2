//! The program `saline-exec` of the tests of this crate, which is their own, started again.

use saline_exec::{Launcher, Program};

/// The arguments that make the tests' program run the test below, and nothing else.
const ENTRY: [&str; 4] = [
    "--exact",
    "command::tests::saline_exec",
    "--ignored",
    "--nocapture",
];

#[test]
#[ignore = "not a test: it is the program saline-exec, which starts the commands of other tests"]
fn saline_exec() {
    std::process::exit(i32::from(
        saline_exec::main() != std::process::ExitCode::SUCCESS,
    ));
}

pub(crate) fn launcher() -> Launcher {
    Launcher::new(Program::this_one(&ENTRY), Vec::new())
}
