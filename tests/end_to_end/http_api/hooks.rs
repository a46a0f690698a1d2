//! In whose name a hook fires its event.

use std::fs;

use saline_testing::Fleet;
use serde_json::{Value, json};

use super::http::{Api, options, write};
use super::users::{fleet_with, fleet_with_users, log_in};

/// Returns the lines of the audit file about fired events.
fn audited(fleet: &Fleet) -> Vec<Value> {
    let text = fs::read_to_string(fleet.path("master/var/log/saline/master-audit.log")).unwrap();
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line
    });
    lines
        .filter(|line| line["function"] == "event.send")
        .collect()
}

#[test]
fn the_audit_line_of_a_hook_names_the_user_who_is_logged_in() {
    let fleet = fleet_with_users(&[]);
    let api = Api::start(&fleet);
    // Without a rule for any runner.
    let bob = log_in(&api, "bob");
    let fired = api.post("/hook/build", &bob, &json!({"a": 1}));
    assert_eq!(fired.expect(200), json!({"success": true}));
    let [line] = &audited(&fleet)[..] else {
        panic!("{:?}", audited(&fleet));
    };
    assert_eq!(
        line["principal"], "external user bob (auto, through local root)",
        "{line}"
    );
    assert_eq!(line["decision"], "allowed", "{line}");
    assert_eq!(line["subject"], "salt/netapi/hook/build", "{line}");
}

#[test]
fn a_hook_takes_the_largest_body_and_says_what_it_does_not_take() {
    let fleet = fleet_with(&options("  max_request_body_size: 8M\n"), &[]);
    let api = Api::start(&fleet);
    // Alice may run everything on the master, bob no runner.
    for user in ["alice", "bob"] {
        let token = log_in(&api, user);
        let header = format!("X-Auth-Token: {token}");
        let post = |path: &str, bytes: usize| {
            let body = write(&fleet, "body.json", &json!(["x".repeat(bytes)]).to_string());
            let body = format!("@{}", body.display());
            let kind = "Content-Type: application/json";
            let sent = [
                "--path-as-is",
                "-H",
                &header,
                "-H",
                kind,
                "--data-binary",
                &body,
            ];
            api.ask(path, &sent)
        };
        // As much as an API takes by default.
        let largest = post("/hook/build", 1024 * 1024 - 4);
        assert_eq!(largest.expect(200), json!({"success": true}), "{user}");
        let larger = post("/hook/build", 3 * 1024 * 1024);
        assert_eq!(larger.status, 413, "{user}: {larger:?}");
        assert!(larger.body.contains("twice"), "{user}: {larger:?}");
        for path in [
            "/hook/a/../b",
            "/hook/%2e%2e/b",
            "/hook/a%0Ab",
            "/hook/a//b",
        ] {
            let refused = post(path, 1);
            assert_eq!(refused.status, 400, "{user} {path}: {refused:?}");
            assert!(refused.body.contains("tag"), "{user} {path}: {refused:?}");
        }
        let no_text = post("/hook/%ff", 1).expect(400);
        assert_eq!(no_text["return"], "the path is not UTF-8");
    }
}

#[test]
fn the_audit_line_of_a_hook_without_a_login_names_the_api() {
    let fleet = fleet_with(&options("  webhook_disable_auth: True\n"), &[]);
    let api = Api::start(&fleet);
    let fired = api.ask("/hook/build", &["-d", "a=1"]);
    assert_eq!(fired.expect(200), json!({"success": true}));
    let [line] = &audited(&fleet)[..] else {
        panic!("{:?}", audited(&fleet));
    };
    assert_eq!(line["principal"], "local root", "{line}");
    assert_eq!(line["subject"], "salt/netapi/hook/build", "{line}");
}
