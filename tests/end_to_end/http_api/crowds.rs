//! One address that takes every place, and clients at another one.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use saline_protocol::transport::Clock;
use saline_testing::Fleet;
use serde_json::json;

use super::http::{Api, options};
use super::users::{fleet_with_users, log_in};
use crate::strangers::raise_own_limit;

/// More connections than the API has at a time.
const CONNECTIONS: usize = 1_100;

/// More logins than may be under way.
const LOGINS: usize = 90;

/// The attempts to log one user in that the master does not have wait, and further ones.
const ATTEMPTS: usize = 10;
const GUESSES: usize = 40;

/// What another client says to curl: it is at an address of its own.
const ELSEWHERE: [&str; 2] = ["--interface", "127.0.0.2"];

fn connect(api: &Api) -> TcpStream {
    TcpStream::connect(api.url.strip_prefix("http://").unwrap()).unwrap()
}

#[test]
fn silent_connections_of_one_address_keep_no_other_out() {
    raise_own_limit();
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    // This one has shown a login.
    let mut own = connect(&api);
    let keys = format!("GET /keys HTTP/1.1\r\nHost: api\r\nX-Auth-Token: {alice}\r\n\r\n");
    let mut ask = || {
        own.write_all(keys.as_bytes()).unwrap();
        let mut head = [0; 12];
        own.read_exact(&mut head).unwrap();
        assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 200");
        let mut rest = Vec::new();
        while !rest.ends_with(b"}}") {
            let mut byte = [0];
            own.read_exact(&mut byte).unwrap();
            rest.extend(byte);
        }
    };
    ask();
    let mut silent: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(&api)).collect();
    let healthy = api.ask(
        "/healthz",
        &[&ELSEWHERE[..], &["--max-time", "10"]].concat(),
    );
    assert_eq!(healthy.status, 200, "{healthy:?}");
    // The oldest of those that showed none made room.
    let first = &mut silent[0];
    let deadline = Some(Duration::from_secs(10));
    first.set_read_timeout(deadline).unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
    ask();
}

/// Begins to log a user in with a password of sharedsecret, and does not wait for the answer.
fn guess(api: &Api, user: &str) -> TcpStream {
    let body = json!({"username": user, "password": "x", "eauth": "sharedsecret"}).to_string();
    let head = "POST /login HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n";
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = connect(api);
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Whether a guess was answered with this status.
fn has_status(stream: &mut TcpStream, status: u16) -> bool {
    let mut head = [0; 12];
    match stream.read(&mut head) {
        Ok(read) => head[..read] == *format!("HTTP/1.1 {status}").as_bytes(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

/// Waits until so many of these guesses were turned away.
#[track_caller]
fn wait_for_refusals(mut guesses: Vec<TcpStream>, refused: usize) {
    let before = guesses.len();
    let deadline = Clock.after(Duration::from_secs(20));
    while before - guesses.len() < refused {
        guesses.retain_mut(|guess| !has_status(guess, 503));
        let left = guesses.len();
        assert!(
            Clock.now() < deadline,
            "{left} of {before} were not turned away"
        );
        std::thread::yield_now();
    }
}

#[test]
fn logins_of_one_address_keep_no_other_from_logging_in() {
    let fleet = fleet_with_users(&[]);
    let api = Api::start(&fleet);
    let guesses = (0..LOGINS).map(|user| guess(&api, &format!("user{user}")));
    // All places are taken as soon as one of them is turned away.
    wait_for_refusals(guesses.collect(), 1);
    let credentials = ["-d", "username=bob&password=any&eauth=auto"];
    let login = api.ask("/login", &[&credentials[..], &ELSEWHERE].concat());
    assert_eq!(login.status, 200, "{login:?}");
}

#[test]
fn guesses_of_a_password_at_one_address_do_not_lock_its_user_out_elsewhere() {
    let auth = "external_auth: {sharedsecret: {carol: [test.ping]}}\nsharedsecret: right\n";
    let mut fleet = Fleet::new("tcp", &format!("{auth}{}", options("")));
    fleet.start_master();
    let api = Api::start(&fleet);
    let login = |password: &str, more: &[&str]| {
        let credentials = format!("username=carol&password={password}&eauth=sharedsecret");
        api.ask("/login", &[&["-d", &credentials], more].concat())
    };
    for _ in 0..ATTEMPTS {
        assert_eq!(login("x", &[]).status, 401);
    }
    let guesses = (0..GUESSES).map(|_| guess(&api, "carol"));
    // One waits for its turn, and some may have had theirs already.
    wait_for_refusals(guesses.collect(), GUESSES / 2);
    let own = login("right", &ELSEWHERE);
    assert_eq!(own.status, 200, "{own:?}");
}
