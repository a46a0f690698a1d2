//! In whose name a hook fires its event.

use std::fs;

use saline_testing::Fleet;
use serde_json::{Value, json};

use super::http::{Api, options};
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
