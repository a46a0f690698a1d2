//! The job store from outside: copied, put back, checked, and refused when a later version wrote it.

use std::path::PathBuf;

use saline_testing::Fleet;

fn jid(stdout: &str) -> String {
    stdout.trim().rsplit(' ').next().unwrap().to_owned()
}

fn store(fleet: &Fleet) -> PathBuf {
    fleet.path("master/var/lib/saline/master/jobs")
}

/// Returns the files of the store that have jobs: beside them is what the master knows of minions.
pub(crate) fn partitions(fleet: &Fleet) -> Vec<PathBuf> {
    let files = std::fs::read_dir(store(fleet)).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let is_partition = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "sqlite") && !path.ends_with("minions.sqlite")
    };
    paths.filter(is_partition).collect()
}

#[test]
fn a_backup_of_a_running_master_is_a_store_that_can_be_put_back() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let said = fleet.saline(&["m1", "test.echo", "before", "--async"]);
    let before = jid(&said.expect(0).stdout);
    fleet.master().log.wait_for("minion m1 returned", 1);
    let backup = fleet.run("saline-run", &["store.backup", "--out", "json"]);
    let backup: serde_json::Value = serde_json::from_str(&backup.expect(0).stdout).unwrap();
    assert_eq!(backup["files"], 2, "the jobs, and the minions");
    let said = fleet.saline(&["m1", "test.echo", "after", "--async"]);
    let after = jid(&said.expect(0).stdout);
    fleet.master().log.wait_for("minion m1 returned", 2);

    fleet.kill_master();
    std::fs::remove_dir_all(store(&fleet)).unwrap();
    std::fs::rename(backup["folder"].as_str().unwrap(), store(&fleet)).unwrap();
    fleet.start_master();
    let found = fleet.run("saline-run", &["jobs.lookup_jid", &before]);
    assert_eq!(found.expect(0).stdout, "m1:\n    before\n");
    let lost = fleet
        .run("saline-run", &["jobs.lookup_jid", &after])
        .expect(1);
    assert!(lost.stderr.contains("is unknown"), "{}", lost.stderr);
    fleet.minions["m1"].log.wait_for("subscribed", 2);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

/// Returns the jid that writes this time, as `date` reads it.
fn jid_at(time: &str) -> String {
    let mut date = std::process::Command::new("date");
    let date = date.args(["-u", "-d", time, "+%Y%m%d%H%M%S%6N"]).output();
    String::from_utf8(date.unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn the_masters_time_is_set_back_after_a_start_with_a_clock_that_was_far_ahead() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let set_back = |fleet: &Fleet| fleet.run("saline-run", &["clock.set_back"]);
    let right = set_back(&fleet).expect(1);
    assert!(right.stderr.contains("nothing is set back"), "{right:?}");
    fleet.saline(&["m1", "test.ping"]).expect(0);
    // As after a start with the clock ten days ahead: the newest file of the store is from then.
    assert_eq!(fleet.master.as_mut().unwrap().terminate(), Some(0));
    let file = partitions(&fleet).pop();
    let ahead = store(&fleet).join(format!("{}.sqlite", jid_at("10 days")));
    std::fs::rename(file.unwrap(), &ahead).unwrap();
    fleet.start_master();
    fleet.minions["m1"].log.wait_for("subscribed", 2);
    fleet.saline(&["m1", "test.ping"]).expect(0);
    let chosen = |fleet: &Fleet| fleet.saline(&["--jid", &jid_at("now"), "m1", "test.ping"]);
    chosen(&fleet).expect(1);

    // Not while a job is open.
    let running = fleet
        .saline(&["m1", "test.sleep", "600", "--async"])
        .expect(0);
    let running = jid(&running.stdout);
    let refused = set_back(&fleet).expect(1);
    assert!(refused.stderr.contains("open jobs: 1"), "{refused:?}");
    fleet
        .saline(&["m1", "saltutil.kill_job", &running])
        .expect(0);
    fleet.master().log.wait_for("minion m1 returned", 3);
    set_back(&fleet).expect(0);
    assert_eq!(fleet.master.as_mut().unwrap().terminate(), Some(0));
    fleet.start_master();
    fleet.master().log.wait_for("time was set back by", 1);
    assert!(ahead.with_extension("sqlite.ahead").exists());
    fleet.minions["m1"].log.wait_for("subscribed", 3);
    chosen(&fleet).expect(0);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

#[test]
fn a_check_of_a_running_master_says_what_is_damaged() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    fleet.saline(&["m1", "test.ping"]).expect(0);
    let check = fleet.run("saline-run", &["store.check"]).expect(0);
    let counts = "files:\n    1\njobs:\n    1\nproblems:\n    0\nreturns:\n    1\n";
    assert_eq!(check.stdout, counts);
    let file = partitions(&fleet).pop().unwrap();
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute("UPDATE returns SET jid = 1", [])
        .unwrap();
    let check = fleet.run("saline-run", &["store.check"]).expect(1);
    let name = file.file_name().unwrap().to_str().unwrap();
    assert_eq!(
        check.stderr,
        format!("ERROR: {name}: 1 returns have no job\n")
    );
}

#[test]
fn a_file_of_another_version_stops_the_start_with_its_name() {
    let fleet = Fleet::new("tcp", "");
    std::fs::create_dir_all(store(&fleet)).unwrap();
    let file = store(&fleet).join("20260101000000000000.sqlite");
    let later = rusqlite::Connection::open(&file).unwrap();
    later
        .execute_batch(
            "PRAGMA application_id = 0x53414c73; PRAGMA user_version = 99; CREATE TABLE a (b)",
        )
        .unwrap();
    drop(later);
    fleet.write_master_config();
    let ended = fleet.master_command().output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let refused = String::from_utf8(ended.stderr).unwrap();
    let expected = format!(
        "the store {} has version 99, and this program reads version 1: ",
        file.display()
    );
    assert!(refused.contains(&expected), "{refused}");
}
