//! The browser does what tests of pages need.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use saline_testing::Browser;

const PAGE: &str = "data:text/html,<title>t</title><button onclick=\"this.textContent='pressed'; console.log('heard', 1)\">b</button>";

#[test]
fn a_page_is_opened_looked_at_and_used_by_keyboard() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.open(PAGE);
    assert_eq!(browser.evaluate("document.title"), "t");
    assert_eq!(browser.evaluate("Promise.resolve(1 + 1)"), 2);
    browser.press("Tab");
    browser.press("Enter");
    browser.wait_for("document.querySelector('button').textContent === 'pressed'");
    assert_eq!(browser.console(), ["heard 1"]);
    let dark = "matchMedia('(prefers-color-scheme: dark)').matches";
    assert_eq!(browser.evaluate(dark), false);
    browser.emulate("prefers-color-scheme", "dark");
    assert_eq!(browser.evaluate(dark), true);
    assert!(browser.screenshot().starts_with("iVBOR"));
}

#[test]
#[should_panic(expected = "has not become true")]
fn waiting_has_an_end_and_says_what_the_page_shows() {
    match Browser::start() {
        Some(mut browser) => {
            browser.open("data:text/html,hello");
            browser.wait_within(std::time::Duration::from_millis(200), "false");
        }
        None => panic!("nothing has not become true without a browser"),
    }
}
