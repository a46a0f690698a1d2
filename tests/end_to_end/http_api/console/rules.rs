//! What users see whose rules allow little.

use saline_testing::Browser;
use serde_json::json;

use super::{click, fill, go, log_in, picture, run};
use crate::http_api::http::Api;
use crate::http_api::users::fleet_with_users;

#[test]
fn a_user_with_narrow_rules_sees_the_minions_that_they_name() {
    let fleet = fleet_with_users(&["web1", "web2"]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "bob");
    browser.wait_for("document.querySelectorAll('#minions-rows tr').length === 1");
    assert_eq!(
        browser.evaluate("document.querySelector('#minions-rows th').textContent"),
        "web1"
    );
    let note = browser.evaluate("document.querySelector('#minions-note').innerText");
    assert!(
        note.as_str().unwrap().contains("the rules of bob name"),
        "{note}"
    );
    assert_eq!(
        browser.evaluate("document.querySelector('#message').hidden"),
        true
    );
    click(&mut browser, "#minions-rows button");
    browser
        .wait_for("document.querySelector('.details').textContent.includes('No rule of bob lets')");
    picture(&mut browser, "console-narrow-rules.png");
    // Keys are not for bob, and the page says why.
    go(&mut browser, "keys");
    browser.wait_for("document.querySelector('#keys-empty').textContent.includes(\"'@wheel'\")");
    assert_eq!(
        browser.evaluate("document.querySelector('#message').hidden"),
        true
    );
    picture(&mut browser, "console-keys-refused.png");
    run(&mut browser, "web1", "test.ping", 1);

    // A target without a minion leaves nothing of the job before it.
    fill(&mut browser, "[name=tgt]", "db*");
    click(&mut browser, "#run-form button:not([type])");
    browser.wait_for(
        "document.querySelector('#run-minions').textContent.startsWith('No minion matches')",
    );
    assert_eq!(
        browser.evaluate("document.querySelector('#run-job').childElementCount"),
        0
    );
    // What the master refuses says so, and leaves no sentence behind that something begins.
    fill(&mut browser, "[name=tgt]", "web2");
    click(&mut browser, "#run-form button:not([type])");
    browser.wait_for("document.querySelector('#message').textContent.includes('may not')");
    assert_eq!(
        browser.evaluate("document.querySelector('#run-minions').textContent"),
        ""
    );
    picture(&mut browser, "console-refused.png");
}

#[test]
fn a_user_whose_rules_name_no_known_minion_is_told_why_none_is_shown() {
    let fleet = fleet_with_users(&["db1"]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "bob");
    browser.wait_for(
        "document.querySelector('#minions-empty').textContent.includes('let no minion be listed')",
    );
    assert_eq!(
        browser.evaluate("document.querySelector('#minions-table').hidden"),
        json!(true)
    );
    picture(&mut browser, "console-no-minions.png");
    assert!(
        browser.console().iter().all(|line| line.contains("401")),
        "{:?}",
        browser.console()
    );
}
