//! How the page looks: contrasts in both themes, narrow and wide windows, and what minions may send.

use saline_testing::{Browser, Fleet};

use super::{click, fill, go, log_in, picture, run};
use crate::http_api::http::{Api, options};
use crate::http_api::users::fleet_with_users;

/// Returns each text whose contrast with what is behind it is below WCAG's AA, with the contrast.
const FAINT: &str = r#"(() => {
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => { const p = part / 255; return p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const faint = [];
  const judge = (element, colour, text) => {
    const [one, other] = [light(numbers(colour).slice(0, 3)), light(ground(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faint.push(`${text.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.tagName === 'NOSCRIPT') continue;
    judge(element, getComputedStyle(element).color, texts.currentNode.data);
  }
  for (const field of document.querySelectorAll('[placeholder]')) {
    if (field.checkVisibility()) judge(field, getComputedStyle(field, '::placeholder').color, field.placeholder);
  }
  return faint;
})()"#;

/// Whether something is wider than the window.
const IS_TOO_WIDE: &str = "document.documentElement.scrollWidth > window.innerWidth";

/// Ends the highlight of rows that are new, whose colours change while they are measured.
fn end_highlights(browser: &mut Browser) {
    browser.evaluate(
        "document.querySelectorAll('.fresh').forEach((row) => row.classList.remove('fresh'))",
    );
}

/// Looks at the view in each theme and width.
fn look(browser: &mut Browser, name: &str) {
    for (width, height) in [(1_400, 900), (390, 844)] {
        browser.resize(width, height);
        for theme in ["light", "dark"] {
            browser.emulate("prefers-color-scheme", theme);
            picture(browser, &format!("console-{name}-{width}-{theme}.png"));
            let faint = browser.evaluate(FAINT);
            assert_eq!(
                faint.as_array().map(Vec::len),
                Some(0),
                "{name} in {theme}: {faint}"
            );
        }
        assert_eq!(browser.evaluate(IS_TOO_WIDE), false, "{name} at {width}");
    }
    browser.resize(1_280, 900);
}

#[test]
fn every_view_is_read_in_both_themes_and_widths() {
    let long = "a-minion-with-a-name-that-is-as-long-as-names-of-hosts-in-clouds-are.eu-central-1.compute.internal.example.com";
    let mut fleet = fleet_with_users(&["web1", "web2", long]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.open(&format!("{}/app", api.url));
    browser.wait_for("!document.querySelector('#login').hidden");
    look(&mut browser, "login");
    log_in(&mut browser, &api, "alice");
    browser.wait_for("document.querySelectorAll('#minions-rows tr').length === 3");
    look(&mut browser, "minions");
    click(&mut browser, "#minions-rows button");
    look(&mut browser, "minion-open");

    let markup = "<img src=x onerror=\"document.title=1\"><script>document.title=1</script>";
    run(&mut browser, "web*", &format!("test.echo '{markup}'"), 2);
    end_highlights(&mut browser);
    look(&mut browser, "run-markup");
    run(
        &mut browser,
        "*",
        "cmd.run 'seq 300; seq -s - 300; echo \"<b>no</b>\" >&2; exit 3'",
        3,
    );
    end_highlights(&mut browser);
    look(&mut browser, "run-failed");
    fleet.run(
        "saline-run",
        &[
            "event.send",
            "my/<img src=x onerror=alert(1)>/tag",
            "{text: '<script>alert(1)</script>'}",
        ],
    );
    // A job that takes its time.
    fill(&mut browser, "[name=command]", "test.sleep 20");
    fleet.minions.get_mut("web2").unwrap().kill();
    click(&mut browser, "#run-form button:not([type])");
    browser.wait_for("document.querySelector('#run-job').textContent.includes('running')");
    look(&mut browser, "run-running");
    go(&mut browser, "jobs");
    browser.wait_for("document.querySelectorAll('#jobs-rows tr').length >= 3");
    let heights =
        "[...document.querySelectorAll('#jobs-rows tr')].every((row) => row.offsetHeight < 60)";
    assert_eq!(browser.evaluate(heights), true, "a job has one line");
    look(&mut browser, "jobs");
    click(&mut browser, "#jobs-rows tr:nth-child(2) button");
    browser.wait_for("document.querySelectorAll('#jobs-job .bad').length > 0");
    end_highlights(&mut browser);
    look(&mut browser, "job");
    go(&mut browser, "events");
    browser.wait_for("document.querySelectorAll('#events-rows li').length > 5");
    click(&mut browser, "#events-rows summary");
    look(&mut browser, "events");
    go(&mut browser, "keys");
    browser.wait_for("document.querySelectorAll('#keys-rows tr').length === 3");
    look(&mut browser, "keys");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('main img, main script').length"),
        0
    );
    assert_ne!(browser.evaluate("document.title"), "1");
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn a_fleet_without_minions_says_so_and_keys_wait_with_their_fingerprints() {
    let users = "external_auth: {auto: {alice: ['.*', '@runner', '@wheel', '@events']}}\n\
                 netapi_enable_clients: [local, local_async, runner, wheel]\n";
    let mut fleet = Fleet::new("tcp", &format!("{users}{}", options("")));
    fleet.start_master();
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    log_in(&mut browser, &api, "alice");
    browser.wait_for(
        "document.querySelector('#minions-empty').textContent.includes('No minion is known yet')",
    );
    for view in ["minions", "jobs", "events", "keys"] {
        go(&mut browser, view);
        if view == "events" {
            // The page's own requests are events, too.
            fill(&mut browser, "#events-filter", "none/has/this");
        }
        browser.wait_for(&format!(
            "document.querySelector('#{view}-empty').checkVisibility()"
        ));
        browser.wait_for(&format!(
            "document.querySelector('#{view}-empty').textContent.startsWith('No')"
        ));
        look(&mut browser, &format!("empty-{view}"));
    }
    fleet.start_minion("web1");
    browser.wait_for("document.querySelector('#keys-rows .wait')?.textContent === 'waits'");
    browser.wait_for("document.querySelector('#keys-rows .fingerprint').textContent.length > 60");
    // A second host that says that it is web1.
    let _second = fleet.spawn_minion("web1", "other", "");
    fleet.run("saline-key", &["-y", "-a", "web1"]).expect(0);
    browser.wait_for("document.querySelector('#keys-rows').textContent.includes('accepted')");
    let lines = "[...document.querySelectorAll('#keys-rows .state')].map((state) => { const text = document.createRange(); \
                 text.selectNodeContents(state); return text.getClientRects().length; })";
    assert_eq!(
        browser.evaluate(lines),
        serde_json::json!([1, 1]),
        "a state has one line"
    );
    look(&mut browser, "keys-waiting");
    // The denied key takes the place of the accepted one, and no other key does.
    browser.evaluate("window.confirm = () => true");
    let finger_of = |kind: &str| {
        format!(
            "document.querySelector('#keys-rows .{kind}')?.closest('tr').querySelector('.fingerprint').textContent"
        )
    };
    let denied = browser.evaluate(&finger_of("bad"));
    let buttons = "[...document.querySelectorAll('#keys-rows .bad ~ .decisions button')].map((button) => button.textContent)";
    let expected = serde_json::json!(["Accept", "Reject", "Delete"]);
    assert_eq!(browser.evaluate(buttons), expected);
    click(&mut browser, "[aria-label='accept the denied key of web1']");
    browser.wait_for(&format!("{} === {denied}", finger_of("good")));
    look(&mut browser, "keys-replaced");
}
