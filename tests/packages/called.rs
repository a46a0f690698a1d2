//! Functions that are called on a copy of this machine, with `saline-call` and without a master.

use std::fs;
use std::path::Path;

use saline_testing::{CommandOutput, Programs};
use serde_json::Value;

use crate::machine::Machine;

/// The programs that a call takes.
const PROGRAMS: [&str; 2] = [
    env!("CARGO_BIN_EXE_saline-call"),
    env!("CARGO_BIN_EXE_saline-exec"),
];

/// Copies the programs to a machine.
pub fn install(machine: &Machine) {
    for program in PROGRAMS {
        let name = Path::new(program).file_name().unwrap();
        Programs::copy(program, machine.root().join("usr/local/bin").join(name)).unwrap();
    }
    fs::create_dir_all(machine.root().join("etc/saline")).unwrap();
    fs::write(machine.root().join("etc/saline/minion"), "id: m1\n").unwrap();
}

/// Calls a function, and returns what was printed with the retcode of the function.
pub fn output(machine: &Machine, words: &[&str]) -> CommandOutput {
    let options = ["--local", "--retcode-passthrough", "--out", "json"];
    machine.run("saline-call", &[&options[..], words].concat())
}

/// Calls a function that succeeds, and returns its return.
#[track_caller]
pub fn call(machine: &Machine, words: &[&str]) -> Value {
    returned(output(machine, words).expect(0))
}

/// Calls a function that fails, and returns its return.
#[track_caller]
pub fn fails(machine: &Machine, words: &[&str]) -> Value {
    let output = output(machine, words);
    assert_ne!(output.code, Some(0), "{words:?}: {}", output.stdout);
    returned(output)
}

#[track_caller]
fn returned(output: CommandOutput) -> Value {
    let printed: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}{}", output.stdout, output.stderr);
    });
    printed["local"].clone()
}
