//! The API gives the memory of large answers back to the system.

use saline_testing::processes::resident_bytes;
use serde_json::json;

use super::http::Api;
use super::users::{fleet_with_users, log_in};

/// The size of a return.
const LARGE: usize = 10_000_000;

/// By how much the API may have grown, in MiB, when the answers are sent.
const MAX_GROWTH: u64 = 20;

#[test]
fn memory_comes_back_after_large_answers() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let resident = || resident_bytes(api.daemon.pid()).unwrap() >> 20;
    let job =
        |line: &str| json!({ "client": "local", "tgt": "web1", "fun": "cmd.run", "arg": [line] });
    api.post("/", &alice, &job("true")).expect(200);
    let before = resident();
    let large = job(&format!("head -c {LARGE} /dev/zero | tr '\\0' x"));
    for _ in 0..3 {
        let answer = api.post("/", &alice, &large).expect(200);
        let returned = answer["return"][0]["web1"].as_str().unwrap();
        assert_eq!(returned.len(), LARGE);
    }
    let begun = api.get("/jobs", &alice).expect(200);
    let jobs = begun["return"][0].as_object().unwrap();
    let jid = jobs.keys().max().unwrap();
    let job = api.get(&format!("/jobs/{jid}"), &alice).expect(200);
    assert_eq!(job["return"][0]["web1"].as_str().unwrap().len(), LARGE);
    let after = resident();
    println!("{before} MiB before, {after} MiB after");
    assert!(
        after < before + MAX_GROWTH,
        "{before} MiB before, {after} MiB after"
    );
}
