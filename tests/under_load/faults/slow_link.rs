//! A minion behind a link of three kilobytes a second: everything arrives, each thing once.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use saline_testing::Fleet;
use saline_testing::links::{Carries, Link};

/// What passes in a second in each direction, in bytes.
const SPEED: u64 = 3_000;

/// The bytes of the large return, which need more than a minute.
const RETURNED: usize = 200_000;

/// The longest time for what needs a minute or two.
const PATIENCE: Duration = Duration::from_secs(240);

/// A master with these options, and the minion `m1`, which has a key and is stopped; the next one that starts is behind
/// the link.
async fn fleet_with_link(options: &str) -> (Fleet, Link) {
    let mut fleet = Fleet::new("tcp", &format!("auto_accept: True\n{options}"));
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet.minions.get_mut("m1").unwrap().terminate();
    fleet.master().log.wait_for("minion m1 says goodbye", 1);
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let route = (at(0), at(fleet.port()));
    let link = Link::open(Carries::Streams, &[route]).await.unwrap();
    link.set(|now| now.bytes_a_second = Some(SPEED));
    (fleet, link)
}

/// Starts `m1` behind the link.
fn start_behind(fleet: &mut Fleet, link: &Link) {
    let master = fleet.port();
    fleet.use_port(link.address().unwrap().port());
    fleet.start_minion("m1");
    fleet.use_port(master);
}

/// Waits until `m1` has returned so many jobs, and looks whether each of them ran and was stored once.
fn returned_once(fleet: &Fleet, jobs: usize) {
    let log = &fleet.master().log;
    let returned = log.find("minion m1 returned", jobs, PATIENCE);
    returned.unwrap_or_else(|log| panic!("{jobs} returns did not come:\n{log}"));
    let ledger = std::fs::read_to_string(fleet.path("ledger")).unwrap();
    let mut runs: Vec<&str> = ledger.lines().collect();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(
        (ledger.lines().count(), runs.len()),
        (jobs, jobs),
        "{ledger}"
    );
    assert_eq!(log.count("minion m1 returned"), jobs);
}

/// A command that notes in the ledger that it ran as this one.
fn noting(fleet: &Fleet, name: &str) -> String {
    format!("echo {name} >> {}", fleet.path("ledger").display())
}

/// Has the job `large` wait for `m1`, which returns so many bytes. Returns its jid.
fn publish_large(fleet: &Fleet, bytes: usize) -> String {
    let command = format!(
        "{}; head -c {bytes} /dev/zero | tr '\\0' x",
        noting(fleet, "large")
    );
    let said = fleet.saline(&["m1", "cmd.run", &command, "--ttl", "1h", "--async"]);
    let said = said.expect(0).stdout;
    said.trim().rsplit(' ').next().unwrap().to_owned()
}

/// Looks whether the return of `m1` in this job has so many bytes.
fn assert_returned(fleet: &Fleet, jid: &str, bytes: usize) {
    let found = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
    let found: serde_json::Value = serde_json::from_str(&found.expect(0).stdout).unwrap();
    assert_eq!(found["m1"].as_str().unwrap().len(), bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn missed_jobs_returns_and_lists_pass_where_messages_are_small_and_the_link_is_slow() {
    const MISSED: usize = 18;
    let _turn = crate::beside_others().await;
    let (mut fleet, link) = fleet_with_link("max_message_size: 65536\n").await;
    // Together they are larger than a message.
    let rest = "x".repeat(4_000);
    for number in 0..MISSED {
        let command = format!("{} # {rest}", noting(&fleet, &number.to_string()));
        fleet
            .saline(&["m1", "cmd.run", &command, "--ttl", "1h", "--async"])
            .expect(0);
    }
    // A return is no larger than a message.
    let jid = publish_large(&fleet, 60_000);
    start_behind(&mut fleet, &link);
    returned_once(&fleet, MISSED + 1);
    assert_returned(&fleet, &jid, 60_000);
    // The list of all these jobs is larger than a message too.
    let listed = fleet.run("saline-run", &["jobs.list_jobs", "--out", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.expect(0).stdout).unwrap();
    assert_eq!(listed.as_object().unwrap().len(), MISSED + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_return_is_not_sent_again_and_again_over_a_slow_link() {
    let _turn = crate::beside_others().await;
    let (mut fleet, link) = fleet_with_link("").await;
    let jid = publish_large(&fleet, RETURNED);
    start_behind(&mut fleet, &link);
    returned_once(&fleet, 1);
    assert_returned(&fleet, &jid, RETURNED);
    let passed = usize::try_from(link.passed()).unwrap();
    assert!(passed < 2 * RETURNED, "{passed} bytes for {RETURNED}");
    assert_eq!(fleet.minions["m1"].log.count("present, and subscribed"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn saline_waits_while_parts_of_a_return_arrive_over_a_slow_link() {
    const BYTES: usize = 162_000;
    let _turn = crate::beside_others().await;
    let (mut fleet, link) = fleet_with_link("").await;
    start_behind(&mut fleet, &link);
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let command = format!("head -c {BYTES} /dev/zero | tr '\\0' x");
    // The return needs 54 seconds, and its first part less than one.
    let said = fleet.saline(&["m1", "cmd.run", &command, "--out", "json"]);
    let said = said.expect(0);
    let said: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(said["m1"].as_str().map(str::len), Some(BYTES), "{said}");
}
