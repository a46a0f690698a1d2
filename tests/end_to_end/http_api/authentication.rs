//! Nobody gets anything without a valid token.

use saline_testing::Fleet;
use serde_json::json;

use super::http::{Api, options};

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

#[test]
fn no_path_and_no_client_answers_without_a_token() {
    let mut fleet = Fleet::with_minions("tcp", &[]);
    fleet.master_options += &options("");
    fleet.write_master_config();
    let api = Api::start(&fleet);
    let chunk = |client: &str| json!([{"client": client, "tgt": "*", "fun": "test.ping", "arg": [], "token": "x"}]);
    let clients = [
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
    for token in NO_TOKENS {
        for client in clients {
            let answer = api.post("/", token, &chunk(client));
            assert_eq!(answer.status, 401, "{token} {client}: {answer:?}");
        }
        for path in ["/minions", "/hook/x", "/logout"] {
            let answer = api.post(path, token, &json!({"tgt": "*", "fun": "test.ping"}));
            assert_eq!(answer.status, 401, "POST {path} {token}: {answer:?}");
        }
        for path in [
            "/minions",
            "/minions/web1",
            "/jobs",
            "/jobs/20261121091409931549",
            "/keys",
            "/keys/web1",
            "/events",
            "/stats",
            "/metrics",
        ] {
            let answer = api.get(path, token);
            assert_eq!(answer.status, 401, "GET {path} {token}: {answer:?}");
            let cookie = format!("session_id={token}");
            let answer = api.ask(path, &["-b", &cookie]);
            assert_eq!(
                answer.status, 401,
                "GET {path} by cookie {token}: {answer:?}"
            );
        }
        let chunk = json!([{"client": "local", "tgt": "*", "fun": "test.ping", "token": token}]);
        assert_eq!(api.post("/run", "", &chunk).status, 401, "{token}");
    }
    // Without any, and before the body is read.
    for path in ["/", "/minions", "/hook/x", "/logout"] {
        let answer = api.ask(path, &["--data-binary", "{"]);
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
    }
    let log = api.daemon.log.text();
    assert!(!log.contains("0011223344"), "{log}");
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
}
