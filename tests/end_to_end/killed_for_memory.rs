//! The kernel kills a minion for want of memory, and its job goes on and returns exactly once.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use saline_testing::{Fleet, TEST_TIMEOUT};
use serde_json::Value;

/// Less than the next order takes that the minion gets.
const LIMIT: &str = "65536";

/// A cgroup with a bound on memory, in either version of cgroups. It is removed with this.
struct MemoryGroup {
    folder: PathBuf,
    limit: &'static str,
    events: &'static str,
}

impl MemoryGroup {
    /// Makes one below the cgroup of this process; none where that is not allowed, which is told.
    fn make() -> Option<Self> {
        let made = Self::version_1().or_else(Self::version_2);
        if made.is_none() {
            eprintln!("skipped: this machine lets nobody make a cgroup that bounds memory");
        }
        made
    }

    fn version_1() -> Option<Self> {
        let mount = Path::new("/sys/fs/cgroup/memory");
        Self::below(
            mount,
            ":memory:",
            "memory.limit_in_bytes",
            "memory.oom_control",
        )
    }

    fn version_2() -> Option<Self> {
        let mount = Path::new("/sys/fs/cgroup");
        // Groups below the root have the controllers that the root gives them.
        let _ = fs::write(mount.join("cgroup.subtree_control"), "+memory");
        Self::below(mount, "0::", "memory.max", "memory.events")
    }

    fn below(
        mount: &Path,
        hierarchy: &str,
        limit: &'static str,
        events: &'static str,
    ) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mut lines = own.lines();
        let own = lines.find_map(|line| Some(line.split_once(hierarchy)?.1.to_owned()))?;
        let name = format!("saline-test-{}", std::process::id());
        // A container may see the whole path, and its own group at the root; and with version 2 a group with processes
        // gives its groups no controllers.
        for parent in [mount.join(own.trim_start_matches('/')), mount.to_owned()] {
            let folder = parent.join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Self {
                folder,
                limit,
                events,
            };
            if group.folder.join(limit).exists() {
                return Some(group);
            }
        }
        None
    }

    /// Moves a process to it.
    fn take(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    fn bound(&self) {
        // Nothing goes to a swap, where there is one.
        let _ = fs::write(self.folder.join("memory.swap.max"), "0");
        fs::write(self.folder.join(self.limit), LIMIT).unwrap();
    }

    /// Whether the kernel has killed a process of it.
    fn has_killed(&self) -> bool {
        let events = fs::read_to_string(self.folder.join(self.events)).unwrap();
        let mut lines = events.lines();
        lines.any(|line| {
            line.strip_prefix("oom_kill ")
                .is_some_and(|count| count != "0")
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A folder that stays is empty, and has the name of a process that has ended.
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_job_returns_exactly_once_whose_minion_the_kernel_kills_for_memory() {
    let Some(group) = MemoryGroup::make() else {
        return;
    };
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let (marks, goes_on) = (fleet.path("marks"), fleet.path("goes-on"));
    let line = format!(
        "echo ran >> {}; while [ ! -e {} ]; do sleep 0.05; done; echo done",
        marks.display(),
        goes_on.display()
    );
    let published = fleet.saline(&["m1", "cmd.run", &line, "--async", "--out", "json"]);
    let published: Value = serde_json::from_str(&published.expect(0).stdout).unwrap();
    let jid = published["jid"].as_str().unwrap();
    wait_until("the command runs", || marks.exists());

    group.take(fleet.minions["m1"].pid());
    group.bound();
    let large = "x".repeat(100_000);
    let order = ["m1", "test.arg", &large, &large, &large, &large];
    fleet.saline(&[&order[..], &["--async"]].concat()).expect(0);
    let mut minion = fleet.minions.remove("m1").unwrap();
    assert_eq!(minion.wait(), None, "a signal ended it");
    assert!(group.has_killed());
    // It ends while no minion is there.
    fs::write(&goes_on, "").unwrap();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);

    let mut result = Value::Null;
    wait_until("the job returns", || {
        let said = fleet.run("saline-run", &["jobs.list_job", jid, "--out", "json"]);
        let json: Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
        result.clone_from(&json["Result"]["m1"]);
        !result.is_null()
    });
    assert_eq!(
        (result["return"].as_str(), result["retcode"].as_i64()),
        (Some("done"), Some(0))
    );
    assert_eq!(fs::read_to_string(&marks).unwrap(), "ran\n");
    fleet.saline(&["m1", "test.ping"]).expect(0);
    let returned = "minion m1 returned from cmd.run";
    assert_eq!(fleet.master().log.count(returned), 1);
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}
