//! The page by keyboard alone, and what a screen reader is told.

use saline_testing::Browser;

use super::{go, log_in, run};
use crate::http_api::http::Api;
use crate::http_api::users::fleet_with_users;

/// The roles of what can be used, which needs a name.
const USABLE: [&str; 8] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "checkbox",
    "table",
    "progressbar",
];

#[test]
fn everything_is_reached_by_tab_with_a_visible_focus_and_has_a_name() {
    let fleet = fleet_with_users(&["web1", "web2"]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "alice");
    run(&mut browser, "*", "cmd.run 'seq 200'", 2);
    for view in ["minions", "run", "jobs", "events", "keys"] {
        go(&mut browser, view);
        if view == "jobs" {
            browser.wait_for("document.querySelectorAll('#jobs-rows tr').length > 0");
        }
        for (role, name) in browser.accessible() {
            assert!(
                !USABLE.contains(&role.as_str()) || !name.trim().is_empty(),
                "{view}: a {role} has no name"
            );
        }
        let usable = "[...document.querySelectorAll('a, button, input, select, summary, [tabindex=\"0\"]')].filter((one) => one.checkVisibility() && !one.disabled).length";
        let count = browser.evaluate(usable).as_u64().unwrap();
        // From the first thing in the page on, in the order of the page.
        browser.evaluate("document.querySelector('.skip').focus()");
        let mut seen = 1;
        let step = "{ const now = document.activeElement, before = window.before; window.before = now; const style = getComputedStyle(now); \
             [now === document.body, before === undefined || Boolean(before.compareDocumentPosition(now) & Node.DOCUMENT_POSITION_FOLLOWING), \
              style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2, now.outerHTML.slice(0, 80)] }";
        browser.evaluate("delete window.before");
        browser.evaluate(step);
        while seen < count {
            browser.press("Tab");
            let at = browser.evaluate(step);
            assert_eq!(
                at[0], false,
                "{view}: Tab left the page after {seen} of {count}"
            );
            assert_eq!(at[1], true, "{view}: Tab goes back to {at}");
            assert_eq!(at[2], true, "{view}: the focus is not seen: {at}");
            seen += 1;
        }
    }
    // A job is opened, read and closed without a mouse.
    go(&mut browser, "jobs");
    browser.wait_for("document.querySelectorAll('#jobs-rows tr').length === 1");
    browser.evaluate("document.querySelector('#jobs-rows button').focus()");
    browser.press("Enter");
    browser.wait_for("document.querySelectorAll('#jobs-job .good').length === 2");
    assert_eq!(browser.evaluate("document.activeElement.tagName"), "H3");
    browser.press("Escape");
    assert_eq!(
        browser.evaluate("document.querySelector('#jobs-job').childElementCount"),
        0
    );
    assert_eq!(
        browser.evaluate("document.activeElement === document.querySelector('#jobs-rows button')"),
        true
    );
}
