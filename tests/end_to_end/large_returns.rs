//! Large returns over a slow link: they hold nothing up, and a lost connection costs a part of them.

use std::net::{Ipv4Addr, SocketAddr};

use saline_protocol::transport::Clock;
use saline_testing::links::{Carries, Link};
use saline_testing::{Fleet, TEST_TIMEOUT};

/// The size of the large return in bytes.
const SIZE: u64 = 6_000_000;

/// Bytes a second to the master: the large return takes four seconds.
const RATE: u64 = 1_500_000;

/// A minion behind a slow link, and the jid of a large return that is under way.
async fn large_return_under_way() -> (Fleet, Link, String) {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    let master = fleet.port();
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let route = (at(0), at(master));
    let link = Link::open(Carries::Streams, &[route]).await.unwrap();
    link.set(|now| now.bytes_a_second = Some(RATE));
    fleet.use_port(link.address().unwrap().port());
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet.use_port(master);
    let large = format!("head -c {SIZE} /dev/zero | tr '\\0' x");
    let said = fleet
        .saline(&["m1", "cmd.run", &large, "--async"])
        .expect(0);
    let jid = said.stdout.trim().rsplit(' ').next().unwrap().to_owned();
    passed(&link, SIZE / 4).await;
    (fleet, link, jid)
}

/// Waits until so many bytes went to the master.
async fn passed(link: &Link, bytes: u64) {
    let passed = link.wait_until_passed(bytes);
    let passed = Clock.deadline(Clock.after(TEST_TIMEOUT), passed).await;
    assert!(passed.is_ok(), "{} of {bytes} bytes passed", link.passed());
}

fn assert_whole(fleet: &Fleet, jid: &str) {
    fleet.minions["m1"]
        .log
        .wait_for(&format!("job {jid}: acknowledged"), 1);
    let found = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
    let json: serde_json::Value = serde_json::from_str(&found.expect(0).stdout).unwrap();
    let text = json["m1"].as_str().unwrap();
    assert!(text.len() as u64 == SIZE && text.bytes().all(|byte| byte == b'x'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn other_jobs_pass_while_a_large_return_is_under_way() {
    let (fleet, _link, jid) = large_return_under_way().await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_return_goes_on_where_a_lost_connection_left_it() {
    let (fleet, link, jid) = large_return_under_way().await;
    for (cuts, part) in [(1, 9), (2, 11)] {
        passed(&link, SIZE * part / 12).await;
        link.cut();
        fleet.minions["m1"].log.wait_for("is back", cuts);
    }
    assert_whole(&fleet, &jid);
    // Each time a part of at most a mebibyte is lost. If it began again, it would be nearly twice as much.
    let passed = link.passed();
    assert!(
        passed < SIZE * 3 / 2,
        "{passed} bytes for a return of {SIZE}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_return_goes_on_after_a_restart_of_its_minion() {
    let (mut fleet, link, jid) = large_return_under_way().await;
    passed(&link, SIZE * 3 / 4).await;
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.use_port(link.address().unwrap().port());
    fleet.start_minion("m1");
    assert_whole(&fleet, &jid);
    let passed = link.passed();
    assert!(
        passed < SIZE * 3 / 2,
        "{passed} bytes for a return of {SIZE}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_return_goes_on_after_a_restart_of_the_master() {
    let (mut fleet, link, jid) = large_return_under_way().await;
    passed(&link, SIZE * 3 / 4).await;
    fleet.kill_master();
    fleet.start_master();
    assert_whole(&fleet, &jid);
    let passed = link.passed();
    assert!(
        passed < SIZE * 3 / 2,
        "{passed} bytes for a return of {SIZE}"
    );
}
