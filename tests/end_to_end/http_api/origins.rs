//! Pages of other origins, and browsers that reach the API through a proxy.

use serde_json::json;

use super::http::{Answer, Api, options};
use super::users::{fleet_with, log_in};

const CREDENTIALS: [&str; 2] = ["-d", "username=alice&password=any&eauth=auto"];

/// Logs in with these headers.
fn log_in_with(api: &Api, headers: &[&str]) -> Answer {
    let headers = headers.iter().flat_map(|header| ["-H", header]);
    let arguments: Vec<&str> = headers.chain(CREDENTIALS).collect();
    api.ask("/login", &arguments)
}

#[test]
fn a_page_of_another_origin_logs_no_browser_in() {
    let fleet = fleet_with(&options("  cors_origin: https://ops.example\n"), &[]);
    let api = Api::start(&fleet);
    let foreign = ["https://evil.example", "null", "http://127.0.0.1:1"];
    let as_https = api.url.replace("http://", "https://");
    for origin in foreign.into_iter().chain([&*as_https]) {
        let answer = log_in_with(&api, &[&format!("Origin: {origin}")]);
        assert_eq!(answer.status, 401, "{origin}: {answer:?}");
        assert!(!answer.head.contains("set-cookie"), "{answer:?}");
    }
    // An allowed one has its token from the body, and no cookie.
    let allowed = log_in_with(&api, &["Origin: https://ops.example"]);
    assert!(!allowed.head.contains("set-cookie"), "{allowed:?}");
    assert_eq!(allowed.expect(200)["return"][0]["user"], "alice");
    let own = log_in_with(&api, &[&format!("Origin: {}", api.url)]);
    assert_eq!(own.status, 200, "{own:?}");
    assert!(own.head.contains("set-cookie: session_id="), "{own:?}");
    assert!(!own.head.contains("secure"), "{own:?}");
}

#[test]
fn a_trusted_proxy_says_how_the_browser_reached_it() {
    let trusted = options("  trusted_proxies: [127.0.0.1]\n");
    let fleet = fleet_with(&trusted, &["web1"]);
    let api = Api::start(&fleet);
    let (proto, host) = ("X-Forwarded-Proto: https", "X-Forwarded-Host: salt.example");
    let page = "Origin: https://salt.example";
    let answer = log_in_with(&api, &[proto, host, page]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.head.contains("; secure"), "{answer:?}");
    assert_eq!(log_in_with(&api, &[page]).status, 401);
    assert_eq!(log_in_with(&api, &[proto, page]).status, 401);
    assert_eq!(log_in_with(&api, &[host, page]).status, 401);

    let cookie = format!("session_id={}", log_in(&api, "alice"));
    let chunk = json!({"client": "local", "tgt": "web1", "fun": "test.ping"}).to_string();
    let ping = |from: &str, page: &str| {
        let kind = "Content-Type: application/json";
        let request = ["--interface", from, "-b", &cookie, "--data-binary", &chunk];
        let headers = ["-H", kind, "-H", proto, "-H", host, "-H", page];
        api.ask("/", &[&request[..], &headers].concat()).status
    };
    assert_eq!(ping("127.0.0.1", page), 200);
    assert_eq!(ping("127.0.0.1", "Origin: http://salt.example"), 401);
    assert_eq!(ping("127.0.0.1", &format!("Origin: {}", api.url)), 401);
    // What anybody else says about a proxy means nothing.
    assert_eq!(ping("127.0.0.2", page), 401);
    assert_eq!(ping("127.0.0.2", &format!("Origin: {}", api.url)), 200);
}
