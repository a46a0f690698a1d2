//! The options about users who log in.

use std::path::Path;
use std::time::Duration;

use saline_config::{LoginWay, MasterConfig};
use saline_data::Value;
use saline_messages::NetapiClient;

use crate::folder::{SCHEMES, folder, master_error};

const USERS: &str = "
sharedsecret: hunter2
external_auth:
  file:
    ^filename: /etc/saline/users
    alice: [test.ping, 'web*': [state.apply, {pkg.install: {kwargs: {name: 'vim.*'}}}]]
    ops%: ['@jobs']
    '*': [test.version]
  sharedsecret:
    bob: ['@all']
token_expire: 1h
netapi_enable_clients: [local, runner_async]
";

#[test]
fn users_are_read_with_their_ways_and_rules() {
    let loaded = MasterConfig::load(folder(&[("master", USERS)]).path(), SCHEMES).unwrap();
    let auth = &loaded.config.external_auth;
    assert_eq!(
        auth.user_file.as_deref(),
        Some(Path::new("/etc/saline/users"))
    );
    assert_eq!(auth.token_expire, Duration::from_secs(3_600));
    let clients: Vec<_> = auth.enabled_clients.iter().copied().collect();
    assert_eq!(clients, [NetapiClient::Local, NetapiClient::RunnerAsync]);
    let written = |way: LoginWay, name: &str, groups: &[&str], is_permissive: bool| -> Vec<Value> {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let rules = auth.ways[&way].of(name, &groups, is_permissive);
        rules.map(|rule| rule.written.clone()).collect()
    };
    let texts =
        |values: &[&str]| -> Vec<Value> { values.iter().map(|text| (*text).into()).collect() };
    assert_eq!(
        written(LoginWay::SharedSecret, "bob", &[], false),
        texts(&["@all"])
    );
    assert_eq!(
        written(LoginWay::File, "carol", &["ops"], false),
        texts(&["@jobs"])
    );
    assert_eq!(
        written(LoginWay::File, "carol", &["ops"], true),
        texts(&["@jobs", "test.version"])
    );
    assert_eq!(
        written(LoginWay::File, "carol", &[], false),
        texts(&["test.version"])
    );
    let alice = written(LoginWay::File, "alice", &[], false);
    assert_eq!(alice[0], "test.ping".into());
    let shown = format!("{:?}", alice[1]);
    assert!(
        shown.contains("web*") && shown.contains("state.apply"),
        "{shown}"
    );
    assert!(!shown.contains("vim"), "{shown}");
    let options = format!("{:?}", loaded.options);
    assert!(
        !options.contains("hunter2") && !options.contains("vim"),
        "{options}"
    );
}

#[test]
fn nobody_may_log_in_by_default() {
    let config = MasterConfig::load(folder(&[("master", "")]).path(), SCHEMES)
        .unwrap()
        .config;
    assert!(!config.external_auth.names_anybody());
    assert!(config.external_auth.enabled_clients.is_empty());
    assert_eq!(
        config.external_auth.token_expire,
        Duration::from_secs(43_200)
    );
}

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, error) in [
        (
            "external_auth: [alice]\n",
            r#"DIR/master:1:16: option "external_auth" takes a mapping of ways to log in (pam, file, sharedsecret, auto) to users with their rules, not a list"#,
        ),
        (
            "external_auth:\n  ldap:\n    alice: [test.ping]\n",
            r#"DIR/master:2:3: option "external_auth" has "ldap": this is not a way to log in; there are pam, file, sharedsecret and auto"#,
        ),
        (
            "external_auth:\n  ldap: {}\n",
            r#"DIR/master:2:3: option "external_auth" has "ldap": this is not a way to log in; there are pam, file, sharedsecret and auto"#,
        ),
        (
            "external_auth:\n  file:\n    alice: [test.ping]\n",
            r#"DIR/master:3:5: option "external_auth" has `file` without `^filename`, which names the file of users"#,
        ),
        (
            "external_auth:\n  file:\n    ^filename: users\n",
            r#"DIR/master:3:16: option "external_auth" takes an absolute path below `^filename`"#,
        ),
        (
            "external_auth:\n  file:\n    ^filename: /u\n    ^hashtype: sha256\n",
            r#"DIR/master:4:5: option "external_auth" has "^hashtype", and there is `^filename` alone: passwords are hashed with Argon2, as saline-key --hash-password does"#,
        ),
        (
            "external_auth:\n  sharedsecret:\n    alice: [test.ping]\n",
            r#"DIR/master:2:3: option "external_auth" has `sharedsecret`, and the option `sharedsecret` is not set: set it, or remove the way"#,
        ),
        (
            "sharedsecret: x\nexternal_auth:\n  sharedsecret:\n    '*': [test.ping]\n",
            r#"DIR/master:4:5: option "external_auth" has '*' below `sharedsecret`: whoever has that password could log in by any name, so name each user"#,
        ),
        (
            "sharedsecret: ''\n",
            r#"DIR/master:1:15: option "sharedsecret" takes a password, which is not empty, not the value here"#,
        ),
        (
            "netapi_enable_clients: [local, ssh]\n",
            r#"DIR/master:1:32: option "netapi_enable_clients" names "ssh", which is not a client: there are local, local_async, local_batch, local_subset, runner, runner_async, wheel, wheel_async"#,
        ),
        (
            "token_expire: 0\n",
            r#"DIR/master:1:15: option "token_expire" takes a number of seconds, or a time such as 90s, 15m or 1d: from 1 to fifty years, not 0"#,
        ),
    ] {
        assert_eq!(master_error(&[("master", text)]), error);
    }
}

#[test]
fn options_of_saltgui_are_kept_as_they_are() {
    let text =
        "saltgui_templates:\n  up: {targettype: glob, command: test.ping}\nsaltgui_pages: [jobs]\n";
    let loaded = MasterConfig::load(folder(&[("master", text)]).path(), SCHEMES).unwrap();
    assert_eq!(loaded.warnings, [""; 0]);
    let templates = loaded.options.get("saltgui_templates").unwrap();
    let command = templates.get("up").and_then(|up| up.get("command"));
    assert_eq!(command, Some(&"test.ping".into()));
    let other = MasterConfig::load(
        folder(&[("master", "saltgui_pages: [keys]\n")]).path(),
        SCHEMES,
    )
    .unwrap();
    assert!(
        other
            .changed_since(&loaded)
            .iter()
            .all(|change| change.is_taken_over)
    );
    let in_force = other.options_in_force(&loaded);
    assert_eq!(in_force.get("saltgui_pages"), Some(&Value::texts(["keys"])));
    assert_eq!(in_force.get("saltgui_templates"), None);
    let error = saline_config::MinionConfig::load(folder(&[("minion", text)]).path(), SCHEMES);
    assert!(error.is_err(), "the minion has none of them");
}
