//! An API that is stopped while clients wait for answers and listen.

use rustix::process::Signal;
use serde_json::json;

use super::events::Listener;
use super::http::Api;
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
