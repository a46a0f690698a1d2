//! A fleet with users who may log in.

use saline_testing::Fleet;

use super::http::{Api, options};

/// Starts a fleet whose API lets alice do everything and bob ping web1.
pub fn fleet_with_users(minions: &[&str]) -> Fleet {
    fleet_with(&options(""), minions)
}

/// Starts such a fleet with these options of the API.
pub fn fleet_with(api: &str, minions: &[&str]) -> Fleet {
    let users = "\
auto_accept: True
external_auth:
  auto:
    alice: ['.*', '@runner', '@wheel', '@jobs', '@events']
    bob: [{web1: [test.ping]}]
netapi_enable_clients: [local, local_async, local_batch, local_subset, runner, runner_async, wheel, wheel_async]
";
    let mut fleet = Fleet::new("tcp", &format!("{users}{api}"));
    fleet.start_master();
    for id in minions {
        fleet.start_minion(id);
    }
    for id in minions {
        fleet.minions[*id].log.wait_for("subscribed", 1);
    }
    fleet
}

/// Logs a user in and returns the token.
#[track_caller]
pub fn log_in(api: &Api, user: &str) -> String {
    let credentials = format!("username={user}&password=any&eauth=auto");
    let answer = api.ask("/login", &["-d", &credentials]);
    let head = answer.head.clone();
    let login = answer.expect(200)["return"][0].take();
    let token = login["token"].as_str().unwrap().to_owned();
    assert_eq!(token.len(), 64, "{login}");
    assert_eq!(
        (login["user"].as_str(), login["eauth"].as_str()),
        (Some(user), Some("auto"))
    );
    let (start, expire) = (
        login["start"].as_f64().unwrap(),
        login["expire"].as_f64().unwrap(),
    );
    assert!(expire > start, "{login}");
    assert!(!login["perms"].as_array().unwrap().is_empty(), "{login}");
    assert!(head.contains(&format!("x-auth-token: {token}")), "{head}");
    assert!(
        head.contains(&format!(
            "set-cookie: session_id={token}; path=/; httponly; samesite=strict"
        )),
        "{head}"
    );
    token
}
