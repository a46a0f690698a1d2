//! The page with many minions, and with large returns.

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

#[test]
fn large_returns_are_shown() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "alice");
    // Both travel in parts, and the second one is too large for its event. The page has read the job before it returns.
    for lines in [50_000, 200_000] {
        run(
            &mut browser,
            "web1",
            &format!("cmd.run 'sleep 1; seq {lines}'"),
            1,
        );
        let text = "document.querySelector('#run-job pre')?.textContent";
        browser.wait_for(&format!(
            "{text}?.startsWith('1\\n2\\n') && {text}.trimEnd().endsWith('\\n{lines}')"
        ));
    }
    picture(&mut browser, "console-large-return.png");
    assert_eq!(browser.console(), [""; 0]);
}
