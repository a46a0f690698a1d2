//! Nobody gets anything without a valid token.

use rustix::process::Signal;
use saline_testing::Fleet;
use serde_json::{Value, json};

use super::events::Listener;
use super::http::{Api, options};
use super::users::{fleet_with, fleet_with_users, log_in};

/// What may stand in the place of a token and is none.
const NO_TOKENS: [&str; 8] = [
    "",
    "bogus",
    // In the form of a token, and of no login.
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeef",
    "../../../../etc/passwd",
    "..%2f..%2f..%2f..%2fetc%2fshadow%2f0000000000000000000000000000000",
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeef/",
    "\"' or 1=1 --",
];

/// The values of `client` in a chunk: Salt's clients, and a name that is no client.
const CLIENTS: [&str; 9] = [
    "local",
    "local_async",
    "local_batch",
    "local_subset",
    "runner",
    "runner_async",
    "wheel",
    "wheel_async",
    "ssh",
];

/// The paths that are read with a login, each with the status for a user who is logged in and has no right to what is there.
const READ: [(&str, u16); 11] = [
    ("/minions", 401),
    ("/minions/web1", 401),
    // The jobs of others are not among them, and not there.
    ("/jobs", 200),
    ("/jobs/20261121091409931549", 404),
    ("/keys", 401),
    ("/keys/web1", 401),
    ("/targets?tgt=*", 401),
    ("/stats", 200),
    ("/metrics", 200),
    ("/events?refused=for-its-parameter", 400),
    ("/jobs/no-jid", 400),
];

/// The paths that take a POST with a login, each with the status for such a user.
const WRITTEN: [(&str, u16); 4] = [
    ("/", 401),
    ("/minions", 401),
    ("/hook/x", 200),
    ("/logout", 200),
];

/// Returns a chunk for a client, of something that exists.
fn chunk(client: &str) -> Value {
    let (fun, arg) = match client {
        "runner" | "runner_async" => ("manage.up", json!([])),
        "wheel" | "wheel_async" => ("key.list_all", json!([])),
        _ => ("test.ping", json!([])),
    };
    json!({"client": client, "tgt": "*", "fun": fun, "arg": arg, "batch": "1"})
}

/// Returns the chunk with a token in it, as `/run` takes it.
fn chunk_with(token: &str, client: &str) -> Value {
    let mut chunk = chunk(client);
    chunk["token"] = json!(token);
    chunk
}

/// Logs alice in for a second, and returns her token when that has passed. Logins have the usual time afterwards.
fn expired(fleet: &mut Fleet, api: &Api) -> String {
    let token = log_in(api, "alice");
    let header = format!("X-Auth-Token: {token}");
    // The stream ends with the login.
    let mut listener = Listener::start(api, &["-H", &header]);
    while listener.next().is_some() {}
    fleet.master_options = fleet.master_options.replace("token_expire: 1\n", "");
    fleet.write_master_config();
    fleet.master().signal(Signal::HUP);
    let lasts = || {
        let login = api.ask("/login", &["-d", "username=bob&password=x&eauth=auto"]);
        let login = login.expect(200);
        let time = |name: &str| login["return"][0][name].as_f64().unwrap();
        time("expire") - time("start") > 2.0
    };
    assert!(
        (0..1_000).any(|_| lasts()),
        "the master reads its file again"
    );
    token
}

#[test]
fn every_path_and_every_client_refuses_what_is_no_token_of_this_master() {
    let mut fleet = fleet_with(&options("token_expire: 1\n"), &["web1"]);
    let api = Api::start(&fleet);
    let expired = expired(&mut fleet, &api);
    let other_fleet = fleet_with_users(&[]);
    let other_api = Api::start(&other_fleet);
    let of_another_master = log_in(&other_api, "alice");
    // They are what they seem to be.
    assert_eq!(other_api.get("/keys", &of_another_master).status, 200);
    let alice = log_in(&api, "alice");
    assert_eq!(api.get("/keys", &alice).status, 200);

    let tokens = NO_TOKENS.into_iter();
    for token in tokens.chain([expired.as_str(), of_another_master.as_str()]) {
        for client in CLIENTS {
            // A token in the chunk is one for `/run` alone.
            let answer = api.post("/", token, &chunk_with(&alice, client));
            assert_eq!(answer.status, 401, "{token} {client}: {answer:?}");
            let answer = api.post("/run", "", &chunk_with(token, client));
            assert_eq!(answer.status, 401, "/run {token} {client}: {answer:?}");
        }
        for (path, _) in WRITTEN {
            let answer = api.post(path, token, &chunk("local_async"));
            assert_eq!(answer.status, 401, "POST {path} {token}: {answer:?}");
        }
        for (path, _) in READ.into_iter().chain([("/events", 0)]) {
            let answer = api.get(path, token);
            assert_eq!(answer.status, 401, "GET {path} {token}: {answer:?}");
            let cookie = format!("session_id={token}");
            let answer = api.ask(path, &["-b", &cookie]);
            assert_eq!(
                answer.status, 401,
                "GET {path} by cookie {token}: {answer:?}"
            );
        }
    }
    // Without any, and before the body is read.
    for (path, _) in WRITTEN {
        let answer = api.ask(path, &["--data-binary", "{"]);
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
    }
    // Nothing was begun, and nothing ended the login of alice.
    let jobs = api.get("/jobs", &alice).expect(200);
    assert_eq!(jobs["return"], json!([{}]));
    let log = api.daemon.log.text();
    for token in ["0011223344", &expired, &of_another_master] {
        assert!(!log.contains(token), "{log}");
    }
}

#[test]
fn every_path_and_every_client_refuses_who_is_logged_in_without_the_right() {
    let fleet = fleet_with_users(&["web1", "web2"]);
    let api = Api::start(&fleet);
    // Bob may ping web1, and everything here is about more.
    let bob = log_in(&api, "bob");
    for client in CLIENTS {
        // There is no client ssh, whoever asks.
        let status = if client == "ssh" { 400 } else { 401 };
        let answer = api.post("/", &bob, &chunk(client));
        assert_eq!(answer.status, status, "{client}: {answer:?}");
        let answer = api.post("/run", "", &chunk_with(&bob, client));
        assert_eq!(answer.status, status, "/run {client}: {answer:?}");
    }
    for (path, status) in READ {
        let answer = api.get(path, &bob);
        assert_eq!(answer.status, status, "GET {path}: {answer:?}");
        let answer = api.ask(path, &["-b", &format!("session_id={bob}")]);
        assert_eq!(answer.status, status, "GET {path} by cookie: {answer:?}");
    }
    for (path, status) in WRITTEN {
        let answer = api.post(path, &bob, &chunk("local_async"));
        assert_eq!(answer.status, status, "POST {path}: {answer:?}");
    }
    let alice = log_in(&api, "alice");
    let jobs = api.get("/jobs", &alice).expect(200);
    assert_eq!(jobs["return"], json!([{}]));
}

#[test]
fn logins_that_fail_do_not_say_why() {
    let mut fleet = Fleet::with_minions("tcp", &[]);
    fleet.master_options += &options("");
    fleet.write_master_config();
    let api = Api::start(&fleet);
    for credentials in [
        json!({"username": "alice", "password": "wrong", "eauth": "file"}),
        json!({"username": "alice", "password": "wrong", "eauth": "nothing"}),
        json!({"username": "alice"}),
        json!({}),
    ] {
        for path in ["/login", "/token"] {
            let answer = api.post(path, "", &credentials);
            assert_eq!(answer.status, 401, "{path} {credentials}: {answer:?}");
            assert!(!answer.head.contains("set-cookie"), "{answer:?}");
        }
    }
    assert_eq!(api.post("/login", "", &json!([1, 2])).status, 400);
    // A login is told what its request lacks.
    for path in ["/login", "/token", "/run"] {
        let credentials = json!({"username": "alice", "password": "any"});
        let answer = api.post(path, "", &credentials);
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
        assert!(answer.body.contains("eauth is missing"), "{answer:?}");
    }
}
