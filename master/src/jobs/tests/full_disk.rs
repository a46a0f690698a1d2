//! A disk that gets full while a partition is reduced. It is a small one, in a namespace of mounts that the test makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::reduction::{heard_since, reduced};
use super::retention::{DAY, is_there, old, since_long_ago};
use super::*;

use MinionJobState::{NotConnected, Offered, Returned, Running};

/// Where the process with the small disk has it; that test does nothing without.
const DISK: &str = "SALINE_TEST_SMALL_DISK";

/// Mounts the disk at `$1`, and becomes the rest.
const MOUNT: &str = r#"mount -t tmpfs -o size=32m tmpfs "$1" && shift && exec "$@""#;

/// What the job that is kept has in its row, in bytes: the log and the file of the reduced partition take about as much each.
const KEPT_JOB_BYTES: usize = 512 * 1024;

/// By how much more room there is in each attempt, in bytes.
const STEP: u64 = 64 * 1024;

fn with_disk(disk: &Path, command: &[&str]) -> Command {
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"])
        .arg(disk)
        .args(command)
        .env(DISK, disk);
    unshare
}

#[test]
fn a_disk_that_gets_full_during_a_reduction_loses_no_job_that_runs() {
    let disk = tempfile::tempdir().unwrap();
    let can = with_disk(disk.path(), &["true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine lets nobody mount a tmpfs in a namespace");
        return;
    }
    let own = std::env::current_exe().unwrap();
    let inner = [
        own.to_str().unwrap(),
        "jobs::tests::full_disk::on_the_small_disk",
        "--exact",
        "--nocapture",
    ];
    let ran = with_disk(disk.path(), &inner).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && said.contains("1 passed") && said.contains("attempts failed"),
        "{said}\n{errors}"
    );
}

/// Leaves so much room on the disk, and returns the file that takes the rest.
fn leave(disk: &Path, room: u64) -> PathBuf {
    let found = rustix::fs::statvfs(disk).unwrap();
    let free = found.f_bavail * found.f_frsize;
    let filler = disk.join("filler");
    let bytes = usize::try_from(free.saturating_sub(room)).unwrap();
    fs::write(&filler, vec![1; bytes]).unwrap();
    filler
}

#[tokio::test]
async fn on_the_small_disk() {
    let Some(disk) = std::env::var_os(DISK).map(PathBuf::from) else {
        return;
    };
    let mut place = Place::new();
    place.settings = settings(disk.join("jobs"));
    let store = since_long_ago(&place).await;
    let mut long = old(&store, 9 * DAY);
    long.arg = Arguments {
        positional: vec!["x".repeat(KEPT_JOB_BYTES).into()],
        named: Vec::new(),
    }
    .pack();
    publish(&store, &long, &[("a", Offered), ("b", Offered)]).await;
    assert!(store.set_state(&long.jid, &id("a"), Running).await.unwrap());
    let returned = answer(&store, "b", &long.jid, &Value::from("small")).await;
    assert_eq!(returned.unwrap(), ReturnVerdict::Stored);
    publish(&store, &old(&store, 6 * DAY), &[("a", NotConnected)]).await;
    let since = heard_since(&store, &[&long]).await;

    let mut failed = 0;
    loop {
        let filler = leave(&disk, failed * STEP);
        store.prune(since).await.unwrap();
        let is_reduced = !reduced(&place).is_empty();
        fs::remove_file(filler).unwrap();
        assert!(is_there(&store, &long).await, "after {failed}");
        if is_reduced {
            break;
        }
        failed += 1;
        assert!(failed < 100, "there is room enough");
    }
    assert!(failed as usize * STEP as usize > KEPT_JOB_BYTES, "{failed}");
    println!("{failed} attempts failed");
    store.close().await;
    drop(store);
    let store = place.open();
    let told = states(&store, &long.jid).await.into_iter();
    let told: Vec<_> = told.map(|(_, state)| state).collect();
    assert_eq!(told, [Running, Returned]);
    assert_eq!(store.check().await.unwrap().problems, [] as [String; 0]);
}
