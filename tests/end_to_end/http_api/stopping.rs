//! An API that is stopped while clients wait for answers and listen.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::events::Listener;
use super::http::{Api, curl};
use super::users::{fleet_with_users, log_in};

#[test]
fn a_stopping_api_answers_what_it_has_begun_and_ends_the_streams() {
    let fleet = fleet_with_users(&["web1"]);
    let mut api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let mut listener = Listener::start(&api, &["-H", &format!("X-Auth-Token: {alice}")]);
    let job =
        json!({"client": "local", "tgt": "web1", "fun": "cmd.run", "arg": ["sleep 2; echo done"]});
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| api.post("/", &alice, &job));
        listener.find("/new");
        api.daemon.signal(Signal::TERM);
        while listener.next().is_some() {}
        asking.join().unwrap()
    });
    assert_eq!(answer.expect(200)["return"], json!([{"web1": "done"}]));
    assert_eq!(api.daemon.wait(), Some(0));
    let log = api.daemon.log.text();
    assert!(!log.contains("did not end in time"), "{log}");
}

#[test]
fn a_request_that_takes_too_long_is_cut_and_its_login_ends() {
    let fleet = fleet_with_users(&["web1"]);
    let mut api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let mut listener = Listener::start(&api, &["-H", &format!("X-Auth-Token: {alice}")]);
    let run = json!({
        "client": "local", "tgt": "web1", "fun": "cmd.run", "arg": ["sleep 60"],
        "username": "alice", "password": "any", "eauth": "auto",
    })
    .to_string();
    let url = format!("{}/run", api.url);
    std::thread::scope(|scope| {
        let kind = "Content-Type: application/json";
        let asking = scope.spawn(|| curl(&url, &["-H", kind, "--data-binary", &run]));
        listener.find("/new");
        api.daemon.signal(Signal::TERM);
        assert_eq!(api.daemon.wait(), Some(0));
        assert!(!asking.join().unwrap().status.success());
    });
    let log = api.daemon.log.text();
    assert!(log.contains("some requests did not end in time"), "{log}");
    assert!(log.contains("POST /run: unanswered"), "{log}");
    let listed = fleet.run("saline-run", &["auth.list", "--out", "json"]);
    let listed: Value = serde_json::from_str(&listed.expect(0).stdout).unwrap();
    // That of the listener is for its user to end.
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
}
