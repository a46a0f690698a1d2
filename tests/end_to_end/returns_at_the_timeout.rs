//! Jobs that end at the moment at which the command line would give their minions up: each return is printed.

use std::process::Output;
use std::thread;

use saline_testing::{CommandOutput, Fleet};

/// How many commands wait at a time, so that the machine delays none of them by much.
const AT_A_TIME: usize = 10;

/// Runs jobs that end within ten milliseconds of one, two and three times the timeout of a second.
fn run(transport: &'static str, count: usize) {
    let fleet = Fleet::with_minions(transport, &["m1"]);
    let numbers: Vec<usize> = (0..count).collect();
    for numbers in numbers.chunks(AT_A_TIME) {
        let waiting = numbers.iter().map(|number| {
            let milliseconds = 1000 * (1 + number % 3) - 10 + number % 21;
            let seconds = format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
            let words = ["m1", "test.sleep", &seconds, "-t", "1"];
            let mut command = fleet.command("saline", &words);
            thread::spawn(move || command.output())
        });
        // All are begun before one is waited for.
        let waiting: Vec<_> = waiting.collect();
        for command in waiting {
            let output: Output = command.join().unwrap().unwrap();
            let said = CommandOutput::from(output).expect(0);
            assert_eq!((&*said.stdout, &*said.stderr), ("m1:\n    True\n", ""));
        }
    }
}

#[test]
fn jobs_that_end_at_the_timeout_return() {
    run("tcp", 30);
}

#[test]
#[ignore = "takes two minutes over each transport"]
fn two_hundred_jobs_that_end_at_the_timeout_return_over_each_transport() {
    for transport in ["tcp", "quic", "zeromq"] {
        run(transport, 200);
    }
}
