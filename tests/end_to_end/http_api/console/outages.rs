//! The page says that it is not up to date while the master cannot be asked, and goes on by itself.

use saline_testing::{Browser, Fleet};

use super::{go, log_in, picture};
use crate::http_api::elsewhere::{configured, fingerprint};
use crate::http_api::http::Api;
use crate::http_api::users::fleet_with_users;

const NOT_CONNECTED: &str = "document.querySelector('#stream').textContent === 'not connected' \
                             && !document.querySelector('#outage').hidden";
const LIVE: &str = "document.querySelector('#stream').textContent === 'live' && document.querySelector('#outage').hidden";

#[test]
fn a_master_that_is_away_is_told_until_it_is_back() {
    let mut fleet = fleet_with_users(&["web1"]);
    let mut api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "alice");
    go(&mut browser, "minions");
    let presence = |text: &str| {
        format!("document.querySelector('#minions-rows .state').textContent === '{text}'")
    };
    browser.wait_for(&presence("present"));

    fleet.kill_master();
    browser.wait_for(NOT_CONNECTED);
    let told = browser.evaluate("document.querySelector('#outage').textContent");
    let told = told.as_str().unwrap();
    assert!(
        told.contains("master") && told.contains("goes on by itself"),
        "{told}"
    );
    picture(&mut browser, "console-outage.png");
    // The page shows by itself what has changed during the outage.
    fleet.minions.get_mut("web1").unwrap().kill();
    fleet.start_master();
    browser.wait_for(LIVE);
    browser.wait_for(&presence("away"));
    go(&mut browser, "events");
    fleet.run("saline-run", &["event.send", "my/tag"]).expect(0);
    browser.wait_for("document.querySelector('#events-rows').textContent.includes('my/tag')");

    api.daemon.kill();
    browser.wait_for(NOT_CONNECTED);
    let told = browser.evaluate("document.querySelector('#outage').textContent");
    assert!(
        told.as_str()
            .unwrap()
            .contains("saline-api does not answer"),
        "{told}"
    );
}

#[test]
fn an_api_whose_key_is_deleted_says_so_and_ends_no_login() {
    let mut fleet = Fleet::new(
        "tcp",
        "auto_accept: True\nexternal_auth: {auto: {alice: ['.*', '@runner', '@events']}}\nnetapi_enable_clients: [local, runner]\n",
    );
    fleet.start_master();
    let api = Api::spawn(configured(&fleet, "tcp", "").args(["-l", "info"]));
    let fingerprint = &fingerprint(&api);
    let accept = ["--accept-operator", fingerprint, "--api"];
    // Until it asks, the master does not know its key.
    assert_eq!(api.ask("/readyz", &[]).status, 503);
    fleet.run("saline-key", &accept).expect(0);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "alice");
    fleet
        .run("saline-key", &["--delete-operator", fingerprint])
        .expect(0);
    browser.wait_for(NOT_CONNECTED);
    assert_eq!(
        browser.evaluate("document.querySelector('#header').hidden"),
        false,
        "the login has not ended"
    );
    picture(&mut browser, "console-key-deleted.png");
    fleet.master().log.wait_for("waits", 2);
    fleet.run("saline-key", &accept).expect(0);
    browser.wait_for(LIVE);
}
