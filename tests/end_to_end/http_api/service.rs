//! The daemon: what it refuses to start with, how it is watched, and what requests may cost.

use std::io::{Read, Write};
use std::net::TcpStream;

use saline_testing::Fleet;
use serde_json::json;

use super::http::{Api, command, options};

#[test]
fn the_api_runs_without_a_master_and_says_that_there_is_none() {
    let mut fleet = Fleet::new("tcp", &options(""));
    fleet.start_master();
    let mut api = Api::start(&fleet);
    assert_eq!(api.ask("/healthz", &[]).expect(200)["status"], "ok");
    assert_eq!(api.ask("/readyz", &[]).expect(200)["status"], "ok");
    let token = "0".repeat(64);
    fleet.kill_master();
    drop(api);
    // Nothing is connected yet.
    api = Api::start(&fleet);
    assert_eq!(api.ask("/healthz", &[]).status, 200);
    assert_eq!(api.ask("/readyz", &[]).status, 503);
    assert_eq!(api.get("/keys", &token).status, 503);
    let health = fleet.run("saline-api", &["--health"]);
    assert_eq!(health.code, Some(1), "{health:?}");
    fleet.start_master();
    assert_eq!(api.ask("/readyz", &[]).status, 200);
    assert_eq!(api.get("/keys", &token).status, 401);
    assert_eq!(api.daemon.terminate(), Some(0));
}

#[test]
fn requests_have_bounds_and_forms() {
    let mut fleet = Fleet::new(
        "tcp",
        &options("  max_request_body_size: 1024\n  trusted_proxies: [127.0.0.1]\n"),
    );
    fleet.start_master();
    let api = Api::start(&fleet);
    let large = json!({"username": "a".repeat(2_000)});
    assert_eq!(api.post("/login", "", &large).status, 413);
    // Before it is sent.
    let announced = "POST /login HTTP/1.1\r\nHost: api\r\nContent-Length: 2000\r\n\r\n";
    let mut stream = TcpStream::connect(api.url.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(announced.as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 413");
    let long = format!("X-Long: {}", "a".repeat(64 * 1024));
    assert_eq!(api.ask("/", &["-H", &long]).status, 431);
    assert_eq!(api.ask("/", &["-H", "Accept: image/png"]).status, 406);
    assert_eq!(api.ask("/nothing", &[]).status, 404);
    assert_eq!(api.ask("/login", &["-X", "DELETE"]).status, 405);
    let yaml = api.ask("/", &["-H", "Accept: application/x-yaml"]);
    assert!(yaml.body.contains("return: Welcome"), "{yaml:?}");
    let answer = api.ask(
        "/",
        &[
            "-H",
            "X-Request-Id: of-the-proxy",
            "-H",
            "Origin: https://other",
        ],
    );
    assert!(
        answer.head.contains("x-request-id: of-the-proxy"),
        "{answer:?}"
    );
    assert!(!answer.head.contains("access-control"), "{answer:?}");
    let other = ["--interface", "127.0.0.2", "-H", "X-Request-Id: made-up"];
    let answer = api.ask("/", &other);
    assert!(!answer.head.contains("made-up"), "{answer:?}");
    assert!(answer.head.contains("x-request-id: "), "{answer:?}");
}

#[test]
fn passwords_are_not_served_in_the_clear() {
    let mut fleet = Fleet::new("tcp", "rest_cherrypy:\n  port: 0\n");
    fleet.write_master_config();
    let check = ["--check"];
    let refused = fleet.run("saline-api", &check).expect(1);
    assert!(refused.stderr.contains("disable_ssl: True"), "{refused:?}");
    fleet.master_options += "  disable_ssl: True\n";
    fleet.write_master_config();
    fleet.run("saline-api", &check).expect(0);
    fleet.master_options = String::new();
    fleet.write_master_config();
    let absent = fleet.run("saline-api", &check).expect(1);
    assert!(
        absent.stderr.contains("rest_cherrypy is not set"),
        "{absent:?}"
    );
    assert!(!command(&fleet).output().unwrap().status.success());
}
