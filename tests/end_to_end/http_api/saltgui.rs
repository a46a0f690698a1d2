//! SaltGUI, which was written for Salt's API, unmodified in a browser. Its files are looked for in the folder that
//! `SALINE_SALTGUI` names, or else in `shared/saltgui` beside the sources.

use std::path::PathBuf;

use saline_testing::Browser;
use serde_json::json;

use super::console::picture;
use super::http::{Api, options};
use super::users::{fleet_with, log_in};

/// Returns the folder with SaltGUI's files; none, and says so, where it is not at hand.
fn saltgui() -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/saltgui"));
    let folder = std::env::var_os("SALINE_SALTGUI").map_or_else(beside, PathBuf::from);
    let found = folder.join("index.html").is_file();
    if !found {
        eprintln!(
            "SKIPPED: SaltGUI is not at hand (SALINE_SALTGUI names no folder with its files); its requests are sent by a script"
        );
    }
    found.then_some(folder)
}

#[test]
fn saltgui_shows_the_fleet() {
    let Some(folder) = saltgui() else {
        return;
    };
    let more = format!(
        "  app: {0}/index.html\n  static: {0}/static\nsaltgui_templates: {{ping: {{description: Ping, target: '*', command: test.ping}}}}\n",
        folder.canonicalize().unwrap().display()
    );
    let fleet = fleet_with(&options(&more), &["web1", "web2"]);
    let api = Api::start(&fleet);
    // Whoever has not `@all` sees jobs of its own.
    let job = json!({ "client": "local", "tgt": "*", "fun": "cmd.run", "arg": ["true"] });
    api.post("/", &log_in(&api, "alice"), &job).expect(200);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    browser.open(&format!("{}/", api.url));
    browser.wait_for("document.querySelector('#username')");
    browser.evaluate(
        "{ const way = document.querySelector('#page-login select'); way.add(new Option('auto', 'auto')); way.value = 'auto'; \
         document.querySelector('#username').value = 'alice'; document.querySelector('#password').value = 'any'; \
         document.querySelector('#login-button').click(); true }",
    );
    // What each page has to show of the fleet.
    let pages = [
        ("minions", &["web1", "web2"][..]),
        ("keys", &["web1", "web2"]),
        ("grains", &["web1", "web2"]),
        ("jobs", &["cmd.run"]),
        ("events", &[]),
        ("schedules", &["web1", "web2"]),
        ("pillars", &["web1", "web2"]),
        ("mine", &["web1", "web2"]),
        ("templates", &["Ping"]),
        ("orchestrations", &["No orchestrations"]),
        ("beacons", &["web1", "web2", "no beacons"]),
    ];
    for (page, texts) in pages {
        if page != "minions" {
            browser.evaluate(&format!(
                "document.querySelector('#button-{page}1').click()"
            ));
        }
        let panel = format!("document.querySelector('#page-{page}')");
        for text in texts {
            let shows = format!(
                "{panel}.style.display !== 'none' && {panel}.innerText.includes({})",
                json!(text)
            );
            browser.wait_for(&shows);
        }
        picture(&mut browser, &format!("saltgui-{page}.png"));
    }
}

/// The requests of SaltGUI's login and pages, in its order, without a `Content-Type`, as it sends them.
#[test]
fn the_requests_of_saltgui_are_answered() {
    let fleet = fleet_with(&options("saltgui_pages: {alice: [minions]}\n"), &["web1"]);
    let api = Api::start(&fleet);
    let token = log_in(&api, "alice");
    let header = format!("X-Auth-Token: {token}");
    let ask = |request: serde_json::Value| {
        let body = request.to_string();
        api.ask(
            "/",
            &["-H", &header, "-H", "Content-Type:", "--data-binary", &body],
        )
    };
    let wheel = |fun: &str| ask(json!({ "client": "wheel", "fun": fun }));
    let config = wheel("config.values").expect(200);
    assert_eq!(
        config["return"][0]["data"]["return"]["saltgui_pages"]["alice"],
        json!(["minions"])
    );
    let keys = wheel("key.list_all").expect(200);
    for list in [
        "minions",
        "minions_pre",
        "minions_rejected",
        "minions_denied",
    ] {
        assert!(
            keys["return"][0]["data"]["return"][list].is_array(),
            "{keys}"
        );
    }
    let orchestrations =
        json!({ "client": "runner", "fun": "state.orchestrate_show_sls", "arg": ["*"] });
    assert_eq!(ask(orchestrations).expect(200)["return"], json!([{}]));
    // Saline has no beacons.
    for (fun, none) in [
        ("beacons.list_available", json!([])),
        ("beacons.list", json!({ "beacons": {} })),
    ] {
        let beacons =
            json!({ "client": "local", "fun": fun, "tgt": "*", "kwarg": { "return_yaml": false } });
        let beacons = ask(beacons).expect(200);
        assert_eq!(beacons["return"], json!([{ "web1": none }]), "{fun}");
    }
    let providers =
        json!({ "client": "local", "fun": "test.providers", "tgt": "*", "tgt_type": "glob" });
    let providers = ask(providers).expect(200);
    assert_eq!(
        providers["return"][0]["web1"]["test"], "test",
        "{providers}"
    );
    let pillars = json!({ "client": "runner", "fun": "cache.pillar", "tgt": "*" });
    assert_eq!(ask(pillars).expect(200)["return"], json!([{ "web1": {} }]));
    for (fun, kwarg) in [
        ("grains.items", json!({})),
        ("test.version", json!({})),
        ("schedule.list", json!({ "return_yaml": false })),
        ("mine.valid", json!({})),
        ("pillar.items", json!({})),
        ("pillar.obfuscate", json!({})),
    ] {
        let answer =
            ask(json!({ "client": "local", "fun": fun, "tgt": "*", "kwarg": kwarg })).expect(200);
        assert!(answer["return"][0].get("web1").is_some(), "{fun}: {answer}");
    }
    for fun in [
        "jobs.list_jobs",
        "jobs.active",
        "manage.versions",
        "cache.grains",
    ] {
        ask(json!({ "client": "runner", "fun": fun })).expect(200);
    }
    // Its help about a command of wheel.
    let docs = ask(json!({ "client": "runner", "fun": "doc.wheel" })).expect(200);
    let text = docs["return"][0]["key.accept"].as_str().unwrap();
    let text = text.trim_start();
    assert!(text.starts_with("Accepts the keys that wait"), "{docs}");
    // A decision about a key that was compared means no other key.
    let reject = |finger: &str| {
        let compared = json!({ "match": { "minions": ["web1"] }, "finger": { "web1": finger } });
        ask(json!({ "client": "wheel", "fun": "key.reject_dict", "kwarg": compared })).expect(200)
    };
    assert_eq!(reject("00:11")["return"][0]["data"]["return"], json!({}));
    let fingers = ask(json!({ "client": "wheel", "fun": "key.finger", "match": "*" })).expect(200);
    let finger = fingers["return"][0]["data"]["return"]["minions"]["web1"].clone();
    let rejected = reject(finger.as_str().unwrap());
    assert_eq!(
        rejected["return"][0]["data"]["return"]["minions_rejected"],
        json!(["web1"])
    );
    assert_eq!(api.ask("/static/minions.txt", &[]).status, 404);
}
