//! Large returns over a slow link: they hold nothing up, and a lost connection costs a part of them.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod support;

use support::Fleet;
use support::slow_link::SlowLink;

/// The size of the large return in bytes.
const SIZE: usize = 6_000_000;

/// Bytes a second to the master: the large return takes four seconds.
const RATE: usize = 1_500_000;

/// A minion behind a slow link, and the jid of a large return that is under way.
fn large_return_under_way() -> (Fleet, SlowLink, String) {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    let link = SlowLink::to(fleet.port(), RATE);
    fleet.use_port(link.port);
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let large = format!("head -c {SIZE} /dev/zero | tr '\\0' x");
    let said = fleet
        .saline(&["m1", "cmd.run", &large, "--async"])
        .expect(0);
    let jid = said.stdout.trim().rsplit(' ').next().unwrap().to_owned();
    link.wait_for(SIZE / 4);
    (fleet, link, jid)
}

fn assert_whole(fleet: &Fleet, jid: &str) {
    fleet.minions["m1"]
        .log
        .wait_for(&format!("job {jid}: acknowledged"), 1);
    let found = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
    let json: serde_json::Value = serde_json::from_str(&found.expect(0).stdout).unwrap();
    let text = json["m1"].as_str().unwrap();
    assert!(text.len() == SIZE && text.bytes().all(|byte| byte == b'x'));
}

#[test]
fn other_jobs_pass_while_a_large_return_is_under_way() {
    let (fleet, _link, jid) = large_return_under_way();
    for _ in 0..3 {
        let said = fleet.saline(&["m1", "test.ping"]).expect(0);
        assert_eq!(said.stdout, "m1:\n    True\n");
    }
    let acknowledged = format!("job {jid}: acknowledged");
    assert_eq!(
        fleet.minions["m1"].log.count(&acknowledged),
        0,
        "the pings were answered before the large return had arrived"
    );
    assert_whole(&fleet, &jid);
}

#[test]
fn a_return_goes_on_where_a_lost_connection_left_it() {
    let (fleet, link, jid) = large_return_under_way();
    for (cuts, part) in [(1, 9), (2, 11)] {
        link.wait_for(SIZE * part / 12);
        link.cut();
        fleet.minions["m1"].log.wait_for("is back", cuts);
    }
    assert_whole(&fleet, &jid);
    // Each time a part of at most a mebibyte is lost. If it began anew, it would be nearly twice as much.
    let passed = link.passed();
    assert!(
        passed < SIZE * 3 / 2,
        "{passed} bytes for a return of {SIZE}"
    );
}

#[test]
fn a_return_goes_on_after_a_restart_of_its_minion() {
    let (mut fleet, link, jid) = large_return_under_way();
    link.wait_for(SIZE * 3 / 4);
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.start_minion("m1");
    assert_whole(&fleet, &jid);
    let passed = link.passed();
    assert!(
        passed < SIZE * 3 / 2,
        "{passed} bytes for a return of {SIZE}"
    );
}
