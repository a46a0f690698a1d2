//! A job outlives its minion: the next one finds it, goes on with it, and delivers its return, exactly once.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use rustix::process::Signal;
use saline_testing::{Fleet, Programs, TEST_TIMEOUT};
use serde_json::{Value, json};

/// Begins a job, and returns its jid.
fn begin(fleet: &Fleet, arguments: &[&str]) -> String {
    let arguments = [&["m1"], arguments, &["--async", "--out", "json"]].concat();
    let said = fleet.saline(&arguments).expect(0);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    json["jid"].as_str().unwrap().to_owned()
}

/// Begins a job with a command, and returns its jid when the command itself runs: its process has the lock of its folder then.
fn begin_command(fleet: &Fleet, function: &str, line: &str) -> String {
    let begun = fleet.path("begun");
    let jid = begin(
        fleet,
        &[function, &format!("echo > {}; {line}", begun.display())],
    );
    wait_until("the command runs", || begun.exists());
    fs::remove_file(begun).unwrap();
    jid
}

/// Runs a function on m1, and returns its value.
fn ask(fleet: &Fleet, arguments: &[&str]) -> Value {
    let arguments = [&["m1"], arguments, &["--out", "json", "--static"]].concat();
    let mut json: Value = serde_json::from_str(&fleet.saline(&arguments).expect(0).stdout).unwrap();
    json["m1"].take()
}

/// Waits for the return of a job.
fn result(fleet: &Fleet, jid: &str) -> Value {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let said = fleet.run("saline-run", &["jobs.list_job", jid, "--out", "json"]);
        let mut json: Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
        let result = json["Result"]["m1"].take();
        if !result.is_null() {
            return result;
        }
        assert!(
            Instant::now() < deadline,
            "job {jid} does not return: {json}"
        );
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

fn jobs_folder(fleet: &Fleet) -> PathBuf {
    fleet.path("m1/run/saline/minion/jobs")
}

/// Returns the names of the folders of jobs.
fn folders(fleet: &Fleet) -> Vec<PathBuf> {
    let entries = fs::read_dir(jobs_folder(fleet));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Starts m1 again.
fn start_again(fleet: &mut Fleet) {
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
}

#[test]
fn jobs_return_exactly_once_over_kills_and_restarts_of_their_minion() {
    const ROUNDS: usize = 12;
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let marks = fleet.path("marks");
    let mut jobs = Vec::new();
    for round in 0..ROUNDS {
        // Some end while no minion is there, and some run over two ends of a minion.
        let seconds = ["0.02", "0.3", "1.5"][round % 3];
        let line = format!(
            "echo {round} >> {}; sleep {seconds}; echo round {round}; exit {round}",
            marks.display()
        );
        jobs.push(begin(&fleet, &["cmd.run", &line]));
        // Between the steps of a beginning job: told, running, and everything before and after.
        match round % 4 {
            0 => {}
            1 => drop(fleet.minions["m1"].log.wait_for("received cmd.run", 1)),
            2 => drop(fleet.minions["m1"].log.wait_for("running cmd.run", 1)),
            _ => {
                let begun = format!("{round}\n");
                wait_until("the command begins", || {
                    fs::read_to_string(&marks).is_ok_and(|text| text.ends_with(&begun))
                });
            }
        }
        let minion = fleet.minions.get_mut("m1").unwrap();
        match round % 2 {
            0 => minion.kill(),
            _ => assert_eq!(minion.terminate(), Some(0)),
        }
        start_again(&mut fleet);
    }
    let mut interrupted = 0;
    for (round, jid) in jobs.iter().enumerate() {
        let result = result(&fleet, jid);
        match result["retcode"].as_u64() {
            // Killed between the note of its beginning and its process: it never ran.
            Some(130) => {
                interrupted += 1;
                let line = format!("{round}");
                let ran = fs::read_to_string(&marks).unwrap();
                assert!(!ran.lines().any(|ran| ran == line), "{ran}");
            }
            retcode => {
                assert_eq!(retcode, Some(round as u64), "{result}");
                assert_eq!(result["return"], format!("round {round}"));
            }
        }
    }
    // In the other half of the rounds the minion stops in order, which interrupts none.
    assert!(interrupted <= ROUNDS / 2, "{interrupted}");
    let ran = fs::read_to_string(&marks).unwrap();
    let mut ran: Vec<&str> = ran.lines().collect();
    ran.sort_unstable();
    let all = ran.len();
    ran.dedup();
    assert_eq!(
        (ran.len(), ran.len() + interrupted),
        (all, ROUNDS),
        "{ran:?}"
    );
    // Nothing is left of them.
    wait_until("the folders are removed", || folders(&fleet).is_empty());
    let returned = "minion m1 returned from cmd.run";
    fleet.master().log.wait_for(returned, ROUNDS);
    assert_eq!(fleet.master().log.count(returned), ROUNDS);
}

#[test]
fn the_next_minion_goes_on_with_a_job() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    fleet.start_minion_with("m1", "process_count_max: 2\n");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let jid = begin(
        &fleet,
        &[
            "cmd.run",
            "trap 'echo hup' HUP; while :; do sleep 0.05; done",
        ],
    );
    wait_until("the job runs", || {
        ask(&fleet, &["saltutil.find_job", &jid])["jid"] == json!(jid)
    });
    let pid = ask(&fleet, &["saltutil.find_job", &jid])["pid"].clone();
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.start_minion_with("m1", "process_count_max: 2\n");
    let log = std::sync::Arc::clone(&fleet.minions["m1"].log);
    log.wait_for(
        &format!("job {jid}: cmd.run has gone on in process {pid}"),
        1,
    );
    let found = ask(&fleet, &["saltutil.find_job", &jid]);
    assert_eq!((&found["pid"], &found["fun"]), (&pid, &json!("cmd.run")));
    assert_eq!(ask(&fleet, &["saltutil.running"])[0]["jid"], json!(jid));
    // It holds one of the two places.
    let second = begin(&fleet, &["test.sleep", "600"]);
    log.wait_for(&format!("job {second}: running test.sleep"), 1);
    let third = begin(&fleet, &["test.sleep", "600"]);
    log.wait_for(&format!("job {third}: waits, since as many jobs run"), 1);
    for waits in [&second, &third] {
        ask(&fleet, &["saltutil.kill_job", waits]);
    }
    let said = ask(&fleet, &["saltutil.signal_job", &jid, "HUP"]);
    let sent = format!("Signal 1 sent to job {jid} at pid ");
    assert!(said.as_str().unwrap().starts_with(&sent), "{said}");
    let said = ask(&fleet, &["saltutil.term_job", &jid]);
    let sent = format!("Signal 15 sent to job {jid} at pid ");
    assert!(said.as_str().unwrap().starts_with(&sent), "{said}");
    let result = result(&fleet, &jid);
    // The shell tells of its child, which got the signal too.
    assert!(
        result["return"].as_str().unwrap().ends_with("hup"),
        "{result}"
    );
    assert_eq!(result["retcode"], 143);
    assert_eq!(ask(&fleet, &["saltutil.kill_job", &jid]), json!(""));
}

#[test]
fn a_minion_that_stops_waits_for_no_command() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let jid = begin_command(&fleet, "cmd.run", "sleep 600");
    let minion = fleet.minions.get_mut("m1").unwrap();
    assert_eq!(minion.terminate(), Some(0));
    let goes_on = format!("job {jid}: goes on without this minion");
    assert_eq!(minion.log.count(&goes_on), 1, "{}", minion.log.text());
    assert_eq!(minion.log.count("is interrupted"), 0);
    start_again(&mut fleet);
    ask(&fleet, &["saltutil.kill_job", &jid]);
    assert_eq!(result(&fleet, &jid)["retcode"], 137);
}

#[test]
fn a_job_goes_on_over_an_upgrade_of_the_programs() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    let installed = fleet.path("bin");
    fs::create_dir(&installed).unwrap();
    let programs = ["saline-minion", "saline-exec", "saline-job"];
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap();
    let install = || {
        for program in programs {
            // As dpkg does: the new file takes the place of the old one, which runs on.
            let new = installed.join(format!("{program}.dpkg-new"));
            Programs::copy(built.join(program), &new).unwrap();
            fs::rename(new, installed.join(program)).unwrap();
        }
    };
    install();
    for program in ["saline", "saline-run"] {
        std::os::unix::fs::symlink(built.join(program), installed.join(program)).unwrap();
    }
    fleet.use_programs(Programs::beside(installed.join("a program")));
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let go = fleet.path("go");
    let line = format!(
        "until [ -e {} ]; do sleep 0.02; done; echo upgraded",
        go.display()
    );
    let jid = begin_command(&fleet, "cmd.run", &line);
    install();
    assert_eq!(fleet.minions.get_mut("m1").unwrap().terminate(), Some(0));
    start_again(&mut fleet);
    fs::write(go, "").unwrap();
    assert_eq!(result(&fleet, &jid)["return"], "upgraded");
}

#[test]
fn a_large_return_waits_on_the_disk_and_a_change_goes_on_as_a_command_does() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let go = fleet.path("go");
    let wait = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let large = begin_command(
        &fleet,
        "cmd.run",
        &format!("{wait}; head -c 3000000 /dev/zero | tr '\\0' x"),
    );
    let small = begin_command(
        &fleet,
        "cmd.run_all",
        &format!("{wait}; echo out; echo err >&2"),
    );
    fleet.minions.get_mut("m1").unwrap().kill();
    fs::write(&go, "").unwrap();
    let returns = |below: &Path| {
        let entries = fs::read_dir(below).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    let state = fleet.path("m1/var/lib/saline/minion/jobs");
    wait_until("the large one is on the disk", || {
        returns(&state)
            .iter()
            .any(|path| path.extension().is_some_and(|end| end == "return"))
    });
    wait_until("the small one is in its folder", || {
        folders(&fleet)
            .iter()
            .any(|folder| folder.join("return").exists())
    });
    for path in returns(&state).into_iter().chain(folders(&fleet)) {
        assert_eq!(
            fs::metadata(&path).unwrap().mode() & 0o077,
            0,
            "{}",
            path.display()
        );
    }
    start_again(&mut fleet);
    assert_eq!(
        result(&fleet, &large)["return"].as_str().unwrap().len(),
        3_000_000
    );
    let value = result(&fleet, &small)["return"].clone();
    assert_eq!(
        (&value["stdout"], &value["stderr"]),
        (&json!("out"), &json!("err"))
    );
    wait_until("nothing is left", || {
        returns(&state).is_empty() && folders(&fleet).is_empty()
    });
}

#[test]
fn a_return_that_can_be_left_nowhere_waits_until_it_can() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let go = fleet.path("go");
    let line = format!(
        "until [ -e {} ]; do sleep 0.02; done; echo $((6 * 7))x",
        go.display()
    );
    let jid = begin_command(&fleet, "cmd.run", &line);
    let pid = ask(&fleet, &["saltutil.find_job", &jid])["pid"].clone();
    fleet.minions.get_mut("m1").unwrap().kill();
    // As if neither had room.
    let state = fleet.path("m1/var/lib/saline/minion/jobs");
    let _ = fs::remove_dir_all(&state);
    fs::write(state, "").unwrap();
    let place = folders(&fleet)[0].join("return");
    fs::create_dir(&place).unwrap();
    start_again(&mut fleet);
    fs::write(&go, "").unwrap();
    wait_until("the return is in the memory of the process", || {
        let memory = fs::read(format!("/proc/{pid}/fd/0")).unwrap_or_default();
        memory.windows(3).any(|part| part == b"42x")
    });
    fs::remove_dir(place).unwrap();
    assert_eq!(result(&fleet, &jid)["return"], "42x");
}

#[test]
fn a_job_whose_process_is_killed_says_so_and_its_command_ends() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    for minion_is_there in [true, false] {
        let alive = fleet.path("alive");
        let line = format!("echo $$ > {}; exec sleep 600", alive.display());
        let jid = begin(&fleet, &["cmd.run", &line]);
        wait_until("the command runs", || {
            fs::read_to_string(&alive).is_ok_and(|text| text.ends_with('\n'))
        });
        let command = fs::read_to_string(&alive).unwrap().trim().to_owned();
        let pid = ask(&fleet, &["saltutil.find_job", &jid])["pid"].clone();
        if !minion_is_there {
            fleet.minions.get_mut("m1").unwrap().kill();
        }
        let pid = i32::try_from(pid.as_u64().unwrap()).unwrap();
        let process = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(process, Signal::KILL).unwrap();
        wait_until("the command ends with it", || {
            !Path::new(&format!("/proc/{command}")).exists()
        });
        fs::remove_file(alive).unwrap();
        let (said, retcode) = match minion_is_there {
            true => ("was ended by signal 9: somebody sent it", 137),
            false => {
                start_again(&mut fleet);
                ("ended without a return, while no minion was there", 130)
            }
        };
        let result = result(&fleet, &jid);
        let text = result["return"].as_str().unwrap();
        assert!(text.contains(said), "{text}");
        assert_eq!(result["retcode"], retcode);
    }
}

#[test]
fn a_job_whose_folder_vanishes_returns_all_the_same() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let go = fleet.path("go");
    let line = format!(
        "until [ -e {} ]; do sleep 0.02; done; echo kept",
        go.display()
    );
    for restarts in [false, true] {
        let _ = fs::remove_file(&go);
        let jid = begin_command(&fleet, "cmd.run", &line);
        fs::remove_dir_all(jobs_folder(&fleet)).unwrap();
        if restarts {
            fleet.minions.get_mut("m1").unwrap().kill();
            start_again(&mut fleet);
        }
        fs::write(&go, "").unwrap();
        let result = result(&fleet, &jid);
        match restarts {
            false => assert_eq!(result["return"], "kept"),
            // Nothing tells the next minion of it.
            true => assert_eq!(result["retcode"], 130),
        }
    }
}

#[test]
fn what_is_copied_or_foreign_is_not_gone_on_with() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let jid = begin_command(&fleet, "cmd.run", "sleep 600");
    // The whole disk of the machine, while the original runs.
    let copied = std::process::Command::new("cp")
        .args(["-a", "m1", "copy"])
        .current_dir(fleet.root())
        .status()
        .unwrap();
    assert!(copied.success());
    let copy = fleet.spawn_minion("m2", "copy", "");
    copy.log.wait_for(
        "its job was begun before the machine was started, or elsewhere",
        1,
    );
    copy.log
        .wait_for(&format!("job {jid}: cmd.run was interrupted"), 1);
    assert_eq!(copy.log.count("has gone on"), 0);
    drop(copy);
    assert!(ask(&fleet, &["saltutil.find_job", &jid])["jid"] == json!(jid));

    // What is in the folder and is no job, or of another version.
    fleet.minions.get_mut("m1").unwrap().kill();
    let jobs = jobs_folder(&fleet);
    let victim = fleet.path("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "precious").unwrap();
    std::os::unix::fs::symlink(&victim, jobs.join("0123456789abcdef-7")).unwrap();
    fs::create_dir_all(jobs.join("../jobs/not ours")).unwrap();
    let other = jobs.join("0123456789abcdef-8");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("job"), b"SALJOB\x09 of another version").unwrap();
    let empty = jobs.join("0123456789abcdef-9");
    fs::create_dir(&empty).unwrap();
    start_again(&mut fleet);
    let log = &fleet.minions["m1"].log;
    log.wait_for("it is not a folder", 1);
    log.wait_for("it is of version 9, and this program knows version 1", 1);
    log.wait_for(&format!("job {jid}: cmd.run has gone on"), 1);
    assert!(!empty.exists() && other.exists());
    assert_eq!(fs::read_to_string(victim.join("file")).unwrap(), "precious");
    ask(&fleet, &["saltutil.kill_job", &jid]);
    assert_eq!(result(&fleet, &jid)["retcode"], 137);
}

#[test]
fn the_command_of_a_killed_saline_call_ends() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let alive = fleet.path("alive");
    let line = format!("echo $$ > {}; exec sleep 600", alive.display());
    let mut command = fleet.command("saline-call", &["--local", "cmd.run", &line]);
    command.args(["-c".as_ref(), fleet.minion_config("m1").as_os_str()]);
    let mut called = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the command runs", || {
        fs::read_to_string(&alive).is_ok_and(|text| text.ends_with('\n'))
    });
    let pid = fs::read_to_string(&alive).unwrap().trim().to_owned();
    called.kill().unwrap();
    called.wait().unwrap();
    wait_until("the command ends with it", || {
        !Path::new(&format!("/proc/{pid}")).exists()
    });
}

#[test]
fn nothing_is_left_when_a_fleet_ends() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let alive = fleet.path("alive");
    let line = format!("echo $$ > {}; exec sleep 600", alive.display());
    begin(&fleet, &["cmd.run", &line]);
    wait_until("the command runs", || {
        fs::read_to_string(&alive).is_ok_and(|text| text.ends_with('\n'))
    });
    let pid = fs::read_to_string(&alive).unwrap().trim().to_owned();
    drop(fleet);
    wait_until("the command ends", || {
        !Path::new(&format!("/proc/{pid}")).exists()
    });
}
