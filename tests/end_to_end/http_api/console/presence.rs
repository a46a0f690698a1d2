//! Presence goes on while somebody reads.

use saline_testing::Browser;

use super::{fill, log_in};
use crate::http_api::http::Api;
use crate::http_api::users::fleet_with_users;

#[test]
fn presence_changes_beside_an_open_minion_that_keeps_the_focus() {
    let mut fleet = fleet_with_users(&["web1", "web2"]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "alice");
    let state = |row: usize, text: &str| {
        format!(
            "document.querySelectorAll('#minions-rows tr:not(.details) .state')[{row}]?.textContent === '{text}'"
        )
    };
    browser.wait_for(&state(1, "present"));
    browser.evaluate("document.querySelector('#minions-rows button').focus()");
    browser.press("Enter");
    browser.wait_for("document.querySelector('#minions-rows dl').textContent.includes('web1')");
    browser.evaluate("document.querySelector('#minions-rows dl').id = 'read'");
    fleet.minions.get_mut("web2").unwrap().kill();
    browser.wait_for(&state(1, "away"));
    assert_eq!(
        browser
            .evaluate("document.activeElement.textContent + document.activeElement.ariaExpanded"),
        "web1true"
    );
    assert_eq!(
        browser.evaluate("Boolean(document.querySelector('#read'))"),
        true
    );
    fleet.start_minion("web2");
    browser.wait_for(&state(1, "present"));
    // A new minion comes into its place between the others.
    fleet.start_minion("web11");
    browser.wait_for("document.querySelectorAll('#minions-rows tr:not(.details)').length === 3");
    let ids = browser.evaluate(
        "[...document.querySelectorAll('#minions-rows th')].map((id) => id.textContent).join()",
    );
    assert_eq!(ids, "web1,web11,web2");
    let open =
        "document.querySelector('#minions-rows tr').nextElementSibling.className === 'details'";
    assert_eq!(browser.evaluate(open), true);

    // Escape closes it, and what the filter leaves out comes back open or closed as it was.
    fill(&mut browser, "#minions-filter", "nothing has this");
    browser.wait_for(
        "document.querySelector('#minions-empty').textContent === 'No minion matches the filter.'",
    );
    fill(&mut browser, "#minions-filter", "");
    assert_eq!(browser.evaluate(open), true);
    browser.evaluate("document.querySelector('.details a').focus()");
    browser.press("Escape");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('.details').length"),
        0
    );
    assert_eq!(
        browser.evaluate("document.activeElement.textContent"),
        "web1"
    );
    assert_eq!(browser.console(), [""; 0]);
}
