//! The built-in page, in a browser.

mod arguments;
mod keyboard;
mod large;
mod looks;
mod outages;
mod presence;
mod rules;

use saline_testing::Browser;
use serde_json::json;

use super::http::Api;
use super::users::fleet_with_users;

/// Opens the page and logs in.
fn log_in(browser: &mut Browser, api: &Api, user: &str) {
    browser.open(&format!("{}/app", api.url));
    browser.wait_for("!document.querySelector('#login').hidden");
    send_login(browser, user);
    browser.wait_for("document.querySelector('#stream').textContent === 'live'");
}

/// Fills in and sends the form of the login.
fn send_login(browser: &mut Browser, user: &str) {
    for (field, text) in [("username", user), ("password", "any"), ("eauth", "auto")] {
        fill(browser, &format!("[name={field}]"), text);
    }
    click(browser, "#login button");
}

/// Goes to a view, and waits until it is loaded.
fn go(browser: &mut Browser, view: &str) {
    browser.evaluate(&format!("location.hash = '#{view}'"));
    browser.wait_for(&format!(
        "!document.querySelector('#{view}').hidden && !document.querySelector('#{view}').hasAttribute('aria-busy')"
    ));
}

/// Runs a command from the command box, and waits until `minions` have returned.
fn run(browser: &mut Browser, target: &str, command: &str, minions: usize) {
    go(browser, "run");
    browser.evaluate("document.querySelector('#run-job').replaceChildren()");
    fill(browser, "[name=tgt]", target);
    fill(browser, "[name=command]", command);
    click(browser, "#run-form button:not([type])");
    browser.wait_for(&format!(
        "document.querySelector('#run-job progress')?.value === {minions}"
    ));
}

/// Writes a picture into the folder that `SALINE_SCREENSHOTS` names, to be looked at.
pub fn picture(browser: &mut Browser, name: &str) {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let Some(folder) = std::env::var_os("SALINE_SCREENSHOTS") else {
        return;
    };
    let file = std::fs::File::create(std::path::Path::new(&folder).join(name)).unwrap();
    let mut decoder = Command::new("base64");
    decoder.arg("-d").stdin(Stdio::piped()).stdout(file);
    let mut decoder = decoder.spawn().unwrap();
    let picture = browser.screenshot();
    decoder
        .stdin
        .take()
        .unwrap()
        .write_all(picture.as_bytes())
        .unwrap();
    assert!(decoder.wait().unwrap().success());
}

/// Writes a text into a field as typing does.
fn fill(browser: &mut Browser, field: &str, text: &str) {
    let (field, text) = (json!(field), json!(text));
    let typed = format!(
        "{{ const field = document.querySelector({field}); field.value = {text}; \
         for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {{ bubbles: true }})); true }}"
    );
    browser.evaluate(&typed);
}

fn click(browser: &mut Browser, what: &str) {
    browser.evaluate(&format!("document.querySelector({}).click()", json!(what)));
}

#[test]
fn the_console_opens_by_every_path() {
    let fleet = fleet_with_users(&[]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    for path in ["/", "/app/", "/minions", "/jobs/20261121091409931549"] {
        browser.open(&format!("{}{path}", api.url));
        browser.wait_for("document.querySelector('#login')?.hidden === false");
        let styles = "getComputedStyle(document.querySelector('#header')).display";
        assert_eq!(browser.evaluate(styles), "none", "{path}");
        let sheets = "document.styleSheets[0].cssRules.length > 0";
        assert_eq!(browser.evaluate(sheets), true, "{path}");
    }
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn the_console_shows_the_fleet_runs_functions_and_decides_about_keys() {
    let mut fleet = fleet_with_users(&["web1", "web2"]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.open(&format!("{}/app", api.url));
    browser.wait_for("!document.querySelector('#login').hidden");
    picture(&mut browser, "login.png");
    send_login(&mut browser, "alice");

    // Minions, with their presence and transport.
    browser.wait_for("document.querySelectorAll('#minions-rows tr').length === 2");
    let cells = "[...document.querySelectorAll('#minions-rows tr')[0].cells].map((cell) => cell.innerText.trim()).slice(0, 3)";
    assert_eq!(browser.evaluate(cells), json!(["web1", "present", "tcp"]));
    // To look at the minions is no job for them, and the facts of one are there when it is opened.
    click(&mut browser, "#minions-rows button");
    let grain = "[...document.querySelectorAll('#minions-rows dl div')].map((grain) => [...grain.children].map((part) => part.textContent).join(': '))";
    browser.wait_for(&format!("{grain}.includes('id: web1')"));
    fill(&mut browser, "#minions-filter", "WEB2");
    browser.wait_for("document.querySelector('#minions-rows').innerText.startsWith('web2')");
    fill(&mut browser, "#minions-filter", "");
    browser.wait_for("document.querySelector('#stream').textContent === 'live'");
    picture(&mut browser, "minions.png");

    // A target is shown before anything runs; what a minion returns is text, whatever it says.
    browser.evaluate("location.hash = '#run'");
    browser.wait_for("!document.querySelector('#run').hidden");
    fill(&mut browser, "[name=tgt]", "web*");
    click(&mut browser, "#run-preview");
    browser.wait_for("document.querySelector('#run-minions').textContent.includes('web1, web2')");
    let markup = "<img src=x onerror=\"document.title=1\">";
    fill(
        &mut browser,
        "[name=command]",
        &format!("test.echo '{markup}'"),
    );
    browser.evaluate("document.querySelector('[name=command]').focus()");
    browser.press("Enter");
    browser.wait_for("document.querySelectorAll('#run-job .good').length === 2");
    let returned = browser.evaluate("document.querySelector('#run-job pre').textContent");
    assert_eq!(returned, markup);
    assert_eq!(
        browser.evaluate("document.querySelectorAll('main img').length"),
        0
    );
    assert_ne!(browser.evaluate("document.title"), "1");
    browser.emulate("prefers-color-scheme", "dark");
    picture(&mut browser, "run-dark.png");
    browser.emulate("prefers-color-scheme", "light");

    // Jobs and events.
    browser.evaluate("location.hash = '#events'");
    browser.wait_for("document.querySelector('#events-rows').innerText.includes('salt/job/')");
    let events = browser.evaluate("document.querySelector('#events-rows').innerText");
    assert!(
        !events.as_str().unwrap().contains("grains.items"),
        "{events}"
    );
    // The list shows runs that the page itself began only when the box is not ticked.
    assert!(!events.as_str().unwrap().contains("salt/run/"), "{events}");
    click(&mut browser, "#events-own");
    browser.wait_for("document.querySelector('#events-rows').innerText.includes('salt/run/')");
    click(&mut browser, "#events-own");
    browser.wait_for("!document.querySelector('#events-rows').innerText.includes('salt/run/')");
    // Who reads an event goes on reading when others come.
    click(&mut browser, "#events-rows summary");
    browser.evaluate("document.querySelector('#events-rows li').id = 'read'");
    fleet.saline(&["web2", "test.version"]).expect(0);
    browser.wait_for("document.querySelector('#events-rows li').id !== 'read'");
    assert_eq!(
        browser.evaluate("document.querySelector('#read details').open"),
        true
    );
    picture(&mut browser, "events.png");
    browser.evaluate("location.hash = '#jobs'");
    browser.wait_for("document.querySelector('#jobs-rows').innerText.includes('test.echo')");
    click(&mut browser, "#jobs-rows button");
    browser.wait_for("document.querySelectorAll('#jobs-job .good').length === 2");
    picture(&mut browser, "jobs.png");

    // A key is deleted by keyboard. A minion that runs would be let in again at once, as the fleet accepts every key.
    if let Some(minion) = fleet.minions.get_mut("web1") {
        minion.kill();
    }
    browser.evaluate("location.hash = '#keys'");
    browser.wait_for("document.querySelectorAll('#keys-rows tr').length === 2");
    let keys = browser.evaluate("document.querySelector('#keys-rows').innerText");
    assert!(
        keys.as_str().unwrap().matches(':').count() > 40,
        "fingerprints: {keys}"
    );
    picture(&mut browser, "keys.png");
    browser.evaluate("window.confirm = () => true");
    browser.evaluate("document.querySelector('#keys-rows button').focus()");
    browser.press("Enter");
    browser.wait_for("!document.querySelector('#keys-rows').innerText.includes('web1\\taccepted')");

    // Nothing was asked of another host, and no script failed.
    let foreign = "performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => !name.startsWith(location.origin))";
    assert_eq!(browser.evaluate(foreign), json!([]));
    assert_eq!(browser.console(), [""; 0]);

    click(&mut browser, "#logout");
    browser.wait_for("!document.querySelector('#login').hidden");
}

#[test]
fn the_console_forgets_everything_when_the_login_ends() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.open(&format!("{}/app#events", api.url));
    browser.wait_for("!document.querySelector('#login').hidden");
    send_login(&mut browser, "nobody");
    browser.wait_for(
        "document.querySelector('#message').textContent.includes('password or eauth is wrong')",
    );
    send_login(&mut browser, "alice");
    browser.wait_for("document.querySelector('#stream').textContent === 'live'");
    fleet.saline(&["web1", "test.ping"]).expect(0);
    browser.wait_for("document.querySelector('#events-rows').innerText.includes('/ret/web1')");

    // Nothing was asked of the API meanwhile: the end of the stream tells it.
    fleet.run("saline-run", &["auth.revoke", "alice"]).expect(0);
    browser.wait_for("!document.querySelector('#login').hidden");
    let told = browser.evaluate("document.querySelector('#message').textContent");
    assert_eq!(told, "The login has ended: log in again.");
    // Whoever logs in then sees nothing of what alice saw.
    send_login(&mut browser, "bob");
    browser.wait_for("document.querySelector('#stream').textContent === 'live'");
    browser.wait_for("!document.querySelector('#events').hidden");
    let shown = browser.evaluate("document.querySelector('#events-rows').innerText");
    assert_eq!(shown, "");
    assert_eq!(
        browser.evaluate("document.activeElement.id"),
        "events-title"
    );

    // A login that expires is noticed at the next step, and the stream ends with it.
    browser.evaluate(
        "{ const login = JSON.parse(sessionStorage['saline-login']); login.expire = 1; \
         sessionStorage['saline-login'] = JSON.stringify(login); location.hash = '#jobs'; true }",
    );
    browser.wait_for("!document.querySelector('#login').hidden");
    let told = browser.evaluate("document.querySelector('#message').textContent");
    assert_eq!(told, "The login has ended: log in again.");
}
