//! What becomes of jobs whose minions die, come late, are copied or lose their disk.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use saline_testing::links::{Carries, Link};
use saline_testing::{CommandOutput, Fleet, TEST_TIMEOUT};
use serde_json::Value;

/// Starts a job without waiting for it, and returns its jid.
fn begin(fleet: &Fleet, arguments: &[&str]) -> String {
    let arguments = [arguments, &["--async", "--out", "json"]].concat();
    let said = fleet.saline(&arguments).expect(0);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    json["jid"].as_str().unwrap().to_owned()
}

/// Waits until `saline-run jobs.lookup_jid` says this of the job.
fn wait_for(fleet: &Fleet, jid: &str, said: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let looked = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
        let looked = looked.expect(0);
        if looked.stderr.contains(said) || looked.stdout.contains(said) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{said}: {}{}",
            looked.stdout,
            looked.stderr
        );
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The connection ends with the process over each of them: a minion that was killed is gone a second
/// later, and has the time of `-t` to come back.
#[test]
fn a_minion_that_is_killed_while_it_runs_is_waited_for_as_long_as_the_timeout_says() {
    for transport in ["tcp", "zeromq"] {
        let mut fleet = Fleet::with_minions(transport, &["m1", "m2"]);
        let mut command = fleet.command("saline", &["*", "test.sleep", "30", "-t", "3"]);
        let waiting = std::thread::spawn(move || command.output().unwrap());
        for id in ["m1", "m2"] {
            let begun = format!("minion {id} runs it");
            fleet.master().log.wait_for(&begun, 1);
        }
        let killed = Instant::now();
        for id in ["m1", "m2"] {
            fleet.minions.get_mut(id).unwrap().kill();
        }
        let said = waiting.join().unwrap();
        assert!(killed.elapsed() < Duration::from_secs(15), "{transport}");
        let told = String::from_utf8(said.stderr).unwrap();
        assert!(
            told.contains("s for minions that are gone and may come back: m1"),
            "{told}"
        );
        let text = String::from_utf8(said.stdout).unwrap();
        assert_eq!(
            text.matches("The minion began the job and was not heard of since")
                .count(),
            2,
            "{text}"
        );
    }
}

#[test]
fn what_a_minion_returns_that_comes_back_within_the_timeout_is_printed() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let mut command = fleet.command("saline", &["m1", "test.sleep", "60", "-t", "60"]);
    let waiting = std::thread::spawn(move || command.output().unwrap());
    fleet.master().log.wait_for("minion m1 runs it", 1);
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.master().log.wait_for("1 minion gone", 1);
    fleet.start_minion("m1");
    let said = CommandOutput::from(waiting.join().unwrap()).expect(1);
    assert!(
        said.stdout
            .contains("The minion stopped while it ran this job"),
        "{said:?}"
    );
    assert!(said.stderr.contains("m1 (130)"), "{said:?}");
}

#[test]
fn a_job_that_its_minion_no_longer_knows_is_lost_at_once() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let jid = begin(&fleet, &["m1", "test.sleep", "100"]);
    fleet.master().log.wait_for("minion m1 runs it", 1);
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.master().log.wait_for("1 minion gone", 1);
    // Its disk is restored as it was before the job.
    let spool = fleet.path("m1/var/lib/saline/minion/spool.log");
    let whole = std::fs::read(&spool).unwrap();
    let needle = jid.as_bytes();
    let at = whole
        .windows(needle.len())
        .position(|w| w == needle)
        .unwrap();
    // The header of the record stands before it: marker, length, checksum.
    let end = whole[..at]
        .windows(8)
        .rposition(|window| *window == whole[8..16])
        .unwrap();
    std::fs::write(&spool, &whole[..end]).unwrap();
    fleet.start_minion("m1");
    wait_for(&fleet, &jid, "[Lost track]");
}

#[test]
fn a_job_with_a_time_to_live_waits_for_a_minion_that_is_away() {
    let mut fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    fleet.minions.get_mut("m1").unwrap().terminate();
    fleet.master().log.wait_for("minion m1 says goodbye", 1);
    let began = Instant::now();
    let said = fleet
        .saline(&["*", "test.echo", "late", "--ttl", "1h"])
        .expect(0);
    assert!(said.stdout.contains("[Queued]"), "{}", said.stdout);
    assert!(
        said.stderr.contains("1 of 2 queued until "),
        "{}",
        said.stderr
    );
    assert!(said.stdout.contains("m2"), "{}", said.stdout);
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "nobody waits for it"
    );
    let said = fleet.saline(&["*", "test.ping", "--ttl", "5d"]).expect(1);
    assert!(
        said.stderr
            .contains("no job can wait for minions for 5d (--ttl), since the master keeps jobs for 1d (keep_jobs_seconds)"),
        "{}",
        said.stderr
    );
    let jid = begin(&fleet, &["m1", "test.echo", "cancelled", "--ttl", "1h"]);
    let cancelled = fleet.run("saline-run", &["jobs.cancel", &jid, "--out", "json"]);
    let cancelled: Value = serde_json::from_str(&cancelled.expect(0).stdout).unwrap();
    assert_eq!(cancelled["m1"], "cancelled");
    fleet.start_minion("m1");
    fleet
        .master()
        .log
        .wait_for("minion m1 returned from test.echo", 1);
    fleet.saline(&["m1", "test.ping"]).expect(0);
    assert_eq!(
        fleet
            .master()
            .log
            .count("minion m1 returned from test.echo"),
        1
    );
    wait_for(&fleet, &jid, "[Cancelled]");
}

/// A job broke the machine, which was put back to what it was before the job.
#[test]
fn a_job_does_not_run_again_on_a_machine_that_was_put_back() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let spool = fleet.path("m1/var/lib/saline/minion/spool.log");
    let ledger = fleet.path("ledger");
    let copy = std::fs::read(&spool).unwrap();
    // The second heartbeat after the copy is noted when the master has answered the first.
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut noted = copy.len() as u64;
    for _ in 0..2 {
        let before = noted;
        while noted == before {
            assert!(Instant::now() < deadline, "no heartbeat is noted");
            noted = std::fs::metadata(&spool).unwrap().len();
            std::thread::yield_now();
        }
    }
    let mut minion = fleet.minions.remove("m1").unwrap();
    let breaking = format!("echo run >> {}; kill -9 {}", ledger.display(), minion.pid());
    let jid = begin(&fleet, &["m1", "cmd.run", &breaking, "--ttl", "1h"]);
    minion.wait();
    // With its memory, in which the return waits for the next minion.
    saline_testing::processes::end_jobs_below(fleet.root());
    std::fs::remove_dir_all(fleet.path("m1/run/saline/minion/jobs")).unwrap();
    std::fs::write(&spool, copy).unwrap();
    fleet.start_minion("m1");
    wait_for(&fleet, &jid, "[May have run]");
    assert_eq!(std::fs::read_to_string(&ledger).unwrap(), "run\n");
}

/// Somebody removed the state of a minion that runs a job, and it was started again: nobody waits for what it forgot.
#[test]
fn a_minion_without_its_spool_is_the_same_machine() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let mut command = fleet.command("saline", &["m1", "test.sleep", "300"]);
    let began = Instant::now();
    let waiting = std::thread::spawn(move || command.output().unwrap());
    fleet.master().log.wait_for("minion m1 runs it", 1);
    fleet.minions.remove("m1").unwrap().kill();
    std::fs::remove_dir_all(fleet.path("m1/var")).unwrap();
    fleet.start_minion("m1");
    let said = CommandOutput::from(waiting.join().unwrap());
    assert!(began.elapsed() < Duration::from_secs(40));
    let said = said.expect(1);
    let text = format!("{}{}", said.stdout, said.stderr);
    assert!(text.contains("no longer knows"), "{text}");
    let log = &fleet.master().log;
    assert_eq!(log.count("two machines") + log.count("another machine"), 0);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

/// The machine was reinstalled with the same key, or another one has it: nobody can tell, and nobody waits for it.
#[test]
fn a_minion_without_its_spool_after_another_boot_is_not_waited_for() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let mut command = fleet.command("saline", &["m1", "test.sleep", "300"]);
    let began = Instant::now();
    let waiting = std::thread::spawn(move || command.output().unwrap());
    fleet.master().log.wait_for("minion m1 runs it", 1);
    fleet.minions.remove("m1").unwrap().kill();
    // Another boot, here another folder, with the key alone.
    copy(&fleet.path("m1"), &fleet.path("again"));
    std::fs::remove_dir_all(fleet.path("again/var")).unwrap();
    let minion = fleet.spawn_minion("m1", "again", "");
    fleet.minions.insert("m1".to_owned(), minion);
    let said = CommandOutput::from(waiting.join().unwrap());
    assert!(began.elapsed() < Duration::from_secs(40));
    let said = said.expect(1);
    assert!(said.stdout.contains("[Disputed]"), "{}", said.stdout);
    assert!(
        said.stdout.contains("now does not know the job"),
        "{}",
        said.stdout
    );
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

/// A machine that loses power ends no connection, so that its last session is not gone when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_machine_that_is_back_at_once_after_a_loss_of_power_is_not_taken_for_two() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    let master = fleet.port();
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let route = (at(0), at(master));
    let link = Link::open(Carries::Streams, &[route]).await.unwrap();
    fleet.use_port(link.address().unwrap().port());
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet.use_port(master);
    let jid = begin(&fleet, &["m1", "test.sleep", "60"]);
    fleet.master().log.wait_for("minion m1 runs it", 1);
    link.set(|now| now.black_hole = true);
    fleet.minions.remove("m1").unwrap().kill();
    // Where it ran before cannot be told: another boot, here another folder.
    copy(&fleet.path("m1"), &fleet.path("again"));
    let minion = fleet.spawn_minion("m1", "again", "");
    minion.log.wait_for("subscribed", 1);
    fleet.minions.insert("m1".to_owned(), minion);
    wait_for(&fleet, &jid, "The minion stopped while it ran this job");
    fleet.saline(&["m1", "test.ping"]).expect(0);
    assert_eq!(fleet.master().log.count("two machines"), 0);
    assert_eq!(fleet.master().log.count("a copy of the machine"), 0);
}

#[test]
fn a_copy_of_a_minion_is_told_and_loses_nothing_of_the_first() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let jid = begin(&fleet, &["m1", "test.sleep", "8"]);
    fleet.master().log.wait_for("minion m1 runs it", 1);
    copy(&fleet.path("m1"), &fleet.path("copy"));
    let mut second = fleet.spawn_minion("m1", "copy", "");
    fleet.master().log.wait_for("two machines use the id m1", 1);
    let keys = fleet.run("saline-key", &["-L"]).expect(0);
    assert!(
        keys.stderr
            .contains("two machines use the id m1: 127.0.0.1:"),
        "{}{}",
        keys.stdout,
        keys.stderr
    );
    second.kill();
    // The job of the first one was not lost by what the second one does not know.
    wait_for(&fleet, &jid, "\"m1\": true");
}

#[test]
fn a_minion_that_runs_as_many_jobs_as_it_may_is_waited_for() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    fleet.start_minion_with("m1", "process_count_max: 2\n");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    for _ in 0..2 {
        begin(&fleet, &["m1", "test.sleep", "4"]);
    }
    fleet.minions["m1"].log.wait_for("running test.sleep", 2);
    let said = fleet.saline(&["m1", "test.ping", "-t", "1"]).expect(0);
    assert_eq!(said.stdout, "m1:\n    True\n");
    assert_eq!(
        said.stderr,
        "Waiting for minions that run as many other jobs as process_count_max allows: m1\n"
    );
}
