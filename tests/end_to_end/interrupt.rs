//! `saline` under Ctrl-C and SIGTERM: what it prints, and that it ends.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use saline_testing::{Fleet, Log, TEST_TIMEOUT, ended};

/// A command whose standard error output is followed. Dropping it kills it.
struct Running {
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: Arc<Log>,
}

impl Running {
    fn start(fleet: &Fleet, arguments: &[&str]) -> Self {
        let mut child = fleet
            .command("saline", arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdout: child.stdout.take(),
            stderr: Log::follow(child.stderr.take().unwrap()),
            child,
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end with exit code 1.
    fn wait(&mut self) {
        self.wait_with_code(1);
    }

    fn wait_with_code(&mut self, code: i32) {
        assert_eq!(ended(&mut self.child).code(), Some(code));
    }

    /// Waits for the end with exit code 1, and returns the rest of the standard output, which must fit
    /// into a pipe.
    fn end(mut self) -> String {
        self.wait();
        let mut rest = String::new();
        let mut stdout = self.stdout.take().unwrap();
        stdout.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command of `cmd.run` that m1 ends when the file `go` is there, and the other minions never.
fn script(fleet: &Fleet) -> String {
    // Its parent is saline-exec, whose parent is saline-job, whose parent is the minion.
    format!(
        "set -- $(cut -d ' ' -f 4 /proc/$PPID/stat); \
         if grep -q etc-m1 /proc/$(cut -d ' ' -f 4 /proc/$1/stat)/cmdline; \
         then until [ -e {} ]; do sleep 0.01; done; echo done; else exec sleep 600; fi",
        fleet.path("go").display()
    )
}

#[test]
fn what_has_come_is_printed_and_the_others_are_named_in_every_format() {
    let fleet = Fleet::with_minions("tcp", &["m1", "m2", "m3"]);
    let script = script(&fleet);
    let config = fleet.config();
    for (format, more, signal, stdout) in [
        ("nested", "--no-color", Signal::INT, "m1:\n    done\n"),
        (
            "json",
            "--no-color",
            Signal::INT,
            "{\n    \"m1\": \"done\"\n}\n",
        ),
        ("raw", "--no-color", Signal::TERM, "{'m1': 'done'}\n"),
        ("nested", "--static", Signal::TERM, "m1:\n    done\n"),
        (
            "json",
            "--static",
            Signal::INT,
            "{\n    \"m1\": \"done\"\n}\n",
        ),
        ("raw", "--static", Signal::INT, "{'m1': 'done'}\n"),
        ("quiet", "--static", Signal::INT, ""),
    ] {
        let _ = std::fs::remove_file(fleet.path("go"));
        let arguments = [
            "*", "cmd.run", &script, "--out", format, more, "-l", "trace",
        ];
        let running = Running::start(&fleet, &arguments);
        // From here on every return comes as an event.
        let line = running.stderr.wait_for("subscribed to the job's events", 1);
        let jid = line.rsplit("jid=").next().unwrap().to_owned();
        running.stderr.wait_for("from the store", 1);
        std::fs::write(fleet.path("go"), "").unwrap();
        running.stderr.wait_for(&format!("{jid}/ret/m1"), 1);
        running.signal(signal);
        let stderr = Arc::clone(&running.stderr);
        assert_eq!(running.end(), stdout, "{format} {more}");

        let exiting = match signal {
            Signal::INT => "\n\nExiting gracefully on Ctrl-c",
            _ => "\nExiting gracefully on SIGTERM",
        };
        let command = format!("saline-run jobs.lookup_jid {jid} -c {}", config.display());
        stderr.wait_for(&command, 1);
        let expected = format!(
            "{exiting}\n\
             The jid of the job: {jid}\n\
             Not returned yet: m2, m3\n\
             To stop the job, run the following commands:\n\n\
             saline-run jobs.cancel {jid} -c {config}\n\
             saline '*' saltutil.term_job {jid} -c {config}\n\n\
             The minions may not have all finished running and any remaining minions will return upon \
             completion. To look up the return data for this job later, run the following command:\n\n\
             {command}",
            config = config.display()
        );
        // Which of them have reported that they began is a matter of time.
        let text: Vec<String> = stderr.text().lines().map(str::to_owned).collect();
        let (running, text): (Vec<_>, Vec<_>) = text
            .into_iter()
            .partition(|line| line.starts_with("Still running it: "));
        assert!(running.len() <= 1, "{running:?}");
        let text = text.join("\n");
        assert!(text.ends_with(&expected), "{text}");

        fleet
            .saline(&["-L", "m2,m3", "saltutil.kill_job", &jid])
            .expect(0);
        let looked_up = fleet.run("saline-run", &["jobs.lookup_jid", &jid]);
        assert!(looked_up.expect(0).stdout.contains("m1:\n    done\n"));
    }
}

/// Starts a command at a terminal, and returns the end of the terminal at which somebody types.
fn at_a_terminal(fleet: &Fleet, arguments: &[&str]) -> (Running, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let programs_end = || {
        let path = std::path::Path::new(name.to_str().unwrap());
        File::options().read(true).write(true).open(path).unwrap()
    };
    let terminal = File::from(terminal);
    let mut running = Running {
        child: fleet
            .command("saline", arguments)
            .stdin(programs_end())
            .stdout(Stdio::piped())
            .stderr(programs_end())
            .spawn()
            .unwrap(),
        stdout: None,
        stderr: Log::follow(terminal.try_clone().unwrap()),
    };
    running.stdout = running.child.stdout.take();
    (running, terminal)
}

#[test]
fn a_job_that_has_ended_while_the_question_stood_is_not_stopped() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let script = script(&fleet);
    let (mut running, mut terminal) =
        at_a_terminal(&fleet, &["m1", "cmd.run", &script, "-l", "trace"]);
    running.stderr.wait_for("from the store", 1);
    fleet.minions["m1"].log.wait_for("running cmd.run", 1);
    running.signal(Signal::INT);
    let line = running.stderr.wait_for("The jid of the job: ", 1);
    let jid = line.trim_end().rsplit(' ').next().unwrap().to_owned();
    running.stderr.wait_for("Not returned yet: m1", 1);
    std::fs::write(fleet.path("go"), "").unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT;
    let returned = || {
        fleet
            .run("saline-run", &["jobs.lookup_jid", &jid])
            .expect(0)
            .stdout
    };
    while !returned().contains("done") {
        assert!(Instant::now() < deadline, "the job goes on");
    }
    terminal.write_all(b"y\n").unwrap();
    running
        .stderr
        .wait_for("The job has ended meanwhile: there was nothing to stop.", 1);
    running.wait_with_code(0);
    let jobs = fleet.run("saline-run", &["jobs.list_jobs"]).expect(0);
    assert!(!jobs.stdout.contains("term_job"), "{}", jobs.stdout);
}

#[test]
fn the_line_of_progress_says_when_the_minion_was_heard_last() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let arguments = ["m1", "cmd.run", "sleep 2; exit 3", "-p"];
    let (mut running, _terminal) = at_a_terminal(&fleet, &arguments);
    // What changes stands in one line, which ends with the error.
    let line = running.stderr.wait_for("1 of 1 failed: m1 (3)", 1);
    let first = line.find("0 of 1, waiting for m1").unwrap();
    let heard = line[first..].split("waiting for m1, last heard ").nth(1);
    let heard = heard.and_then(|rest| rest.split_once(" s ago"));
    let seconds = heard.and_then(|(seconds, _)| seconds.parse::<u64>().ok());
    assert!(seconds.is_some(), "{line:?}");
    running.wait();
}

#[test]
fn whoever_types_ctrl_c_at_a_terminal_can_stop_the_job() {
    // The minions are told to end the job at once, though other jobs for so many are made batches.
    let options = "auto_accept: True\nbatch_safe_limit: 2\nbatch_safe_size: 1\n";
    let mut fleet = Fleet::new("tcp", options);
    fleet.start_master();
    for minion in ["m1", "m2"] {
        fleet.start_minion(minion);
        fleet.minions[minion].log.wait_for("subscribed", 1);
    }
    let command = ["*", "cmd.run", "exec sleep 600", "-l", "trace"];
    let arguments = [&command[..], &["--batch-safe-limit", "0"]].concat();
    let (running, mut terminal) = at_a_terminal(&fleet, &arguments);
    running.stderr.wait_for("from the store", 1);
    for minion in ["m1", "m2"] {
        fleet.minions[minion].log.wait_for("running cmd.run", 1);
    }
    running.signal(Signal::INT);
    running.stderr.wait_for("Not returned yet: m1, m2", 1);
    terminal.write_all(b"y\n").unwrap();
    running.stderr.wait_for("Stopping the job", 1);
    // The minions end their commands, and return.
    running.stderr.wait_for("2 of 2 failed: m1 (", 1);
    running.end();
    assert_eq!(fleet.master().log.count(" at a time"), 0);
}

#[test]
fn the_jid_is_told_when_the_reader_of_the_output_has_ended_too() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let arguments = [
        "m1",
        "test.sleep",
        "600",
        "--out",
        "json",
        "--show-jid",
        "--static",
    ];
    let mut running = Running::start(&fleet, &arguments);
    drop(running.stdout.take());
    running.stderr.wait_for("jid: ", 1);
    running.signal(Signal::INT);
    let line = running.stderr.wait_for("The jid of the job: ", 1);
    running.stderr.wait_for("saline-run jobs.lookup_jid", 1);
    running.wait();
    let jid = line.rsplit(' ').next().unwrap();
    fleet.saline(&["m1", "saltutil.kill_job", jid]).expect(0);
}

#[test]
fn a_second_signal_ends_a_command_that_is_stuck_in_a_write() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let command = "head -c 5000000 /dev/zero | tr '\\0' x";
    let mut running = Running::start(&fleet, &["m1", "cmd.run", command]);
    // What follows does not fit into the pipe, and nobody reads it before the end.
    let mut first = [0; 4];
    let stdout = running.stdout.as_mut().unwrap();
    stdout.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"m1:\n");
    // Two different ones, because the system delivers two pending signals of one kind as one.
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    assert!(running.end().len() < 5_000_000);
}

#[test]
fn a_job_without_a_jid_is_told() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    fleet.saline(&["m1", "test.ping"]).expect(0);
    // The master cannot commit the job, and so does not answer, while another process writes.
    let file = crate::job_store::partitions(&fleet).pop().unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let running = Running::start(&fleet, &["m1", "test.ping", "-l", "debug"]);
    running.stderr.wait_for("session made", 1);
    running.signal(Signal::INT);
    let stderr = Arc::clone(&running.stderr);
    assert_eq!(running.end(), "");
    let command = format!("saline-run jobs.list_jobs -c {}", fleet.config().display());
    stderr.wait_for(&command, 1);
    let expected = format!(
        "\n\nExiting gracefully on Ctrl-c\n\
         The job may have been published: the master has not answered with a jid yet. To see whether it \
         was, run the following command:\n\n{command}"
    );
    assert!(stderr.text().ends_with(&expected), "{}", stderr.text());
    other.execute_batch("ROLLBACK").unwrap();
    fleet.run("saline-run", &["jobs.list_jobs"]).expect(0);
}
