//! The page with many minions.

use std::process::Command;

use saline_testing::{Browser, Daemon};

use super::{log_in, picture, run};
use crate::http_api::http::Api;
use crate::http_api::users::fleet_with_users;

const MINIONS: usize = 500;

#[test]
fn five_hundred_minions_are_listed_and_return() {
    let fleet = fleet_with_users(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-swarm"));
    command
        .args(["--minions", &MINIONS.to_string(), "--transport", "tcp"])
        .args(["--master", &format!("127.0.0.1:{}", fleet.port())])
        .arg("--root")
        .arg(fleet.path("swarm"));
    let _swarm = Daemon::spawn(&mut command);
    fleet.master().log.wait_for("is connected", MINIONS);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "alice");
    browser.wait_for(&format!(
        "document.querySelectorAll('#minions-rows tr').length === {MINIONS}"
    ));
    picture(&mut browser, "console-500-minions.png");
    run(&mut browser, "*", "test.ping", MINIONS);
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#run-job .good').length"),
        MINIONS
    );
    // Short returns are no stops of the Tab key.
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#run-job [tabindex=\"0\"]').length"),
        0
    );
    picture(&mut browser, "console-500-returns.png");
    assert_eq!(browser.console(), [""; 0]);
}
