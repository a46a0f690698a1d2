//! Daemons give the memory of large returns back to the system, and a minion that of its start.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for a process that is really running; nothing here sleeps"
)]

use std::time::{Duration, Instant};

use saline_testing::Fleet;
use saline_testing::processes::resident_bytes;

saline_testing::over_each_transport!(memory_comes_back_after_large_returns);

/// The memory of a process in MiB.
fn resident(pid: u32) -> u64 {
    resident_bytes(pid).unwrap() >> 20
}

fn memory_comes_back_after_large_returns(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1"]);
    let (master, minion) = (fleet.master().pid(), fleet.minions["m1"].pid());
    fleet.saline(&["m1", "test.ping"]).expect(0);
    let before = (resident(master), resident(minion));
    let large = "head -c 10000000 /dev/zero | tr '\\0' x";
    for _ in 0..3 {
        let said = fleet.saline(&["m1", "cmd.run", large]).expect(0);
        assert!(said.stdout.len() > 10_000_000);
    }
    let after = (resident(master), resident(minion));
    println!("{transport}: {before:?} MiB before, {after:?} after, master and minion");
    // Beside what a debug build has before.
    assert!(after.0 < before.0 + 25, "the master: {before:?} {after:?}");
    assert!(after.1 < before.1 + 10, "the minion: {before:?} {after:?}");
}

#[test]
fn an_idle_minion_unmaps_what_only_its_start_needed() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let minion = fleet.minions["m1"].pid();
    let resident = || resident_bytes(minion).unwrap() >> 10;
    let present = resident();
    // It waits for the reports that begin a session.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut idle = resident();
    while idle * 4 > present * 3 {
        assert!(
            Instant::now() < deadline,
            "{present} KiB at first, {idle} now"
        );
        std::thread::yield_now();
        idle = resident();
    }
    // What it needs again comes back.
    fleet.saline(&["m1", "cmd.run", "echo here"]).expect(0);
}
