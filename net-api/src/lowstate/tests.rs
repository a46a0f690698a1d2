use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use proptest::prelude::*;
use saline_client::data::Value;
use saline_client::messages::{Arguments, BatchSize, NetapiClient};
use saline_client::targeting::TargetKind;

use super::{Chunk, call_arguments, check_calls, chunks, parsed};
use crate::error::ApiError;

fn read(kind: &str, body: &[u8]) -> Result<Vec<Chunk>, ApiError> {
    let mut headers = HeaderMap::new();
    if !kind.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
    }
    chunks(parsed(&headers, body)?)
}

fn one(json: &str) -> Chunk {
    read("application/json", json.as_bytes()).unwrap().remove(0)
}

#[test]
fn a_form_and_a_call_have_a_bounded_number_of_fields() {
    let field = |number: usize| format!("f{number}=1");
    let fields = |count: usize| (0..count).map(field).collect::<Vec<_>>().join("&");
    assert!(super::form(fields(1_000).as_bytes()).is_ok());
    let refused = super::form(fields(1_001).as_bytes());
    assert!(
        matches!(refused, Err(ApiError::BadRequest(_))),
        "{refused:?}"
    );
    let named = |count: usize| {
        let named = (0..count).map(|number| (format!("a{number}"), Value::Null));
        let kwarg = Value::Map(named.collect());
        let chunk = Chunk::new(vec![("kwarg".to_owned(), kwarg)]).unwrap();
        call_arguments(&chunk, false)
    };
    assert!(named(1_000).is_ok());
    assert!(named(1_001).is_err());
}

#[test]
fn credentials_are_no_arguments() {
    let entries = ["username", "password", "sharedkey", "eauth", "token"];
    let entries = entries.map(|name| (name.to_owned(), Value::from("secret")));
    let chunk = Chunk::new(entries.to_vec()).unwrap();
    assert_eq!(call_arguments(&chunk, true).unwrap(), Arguments::default());
}

#[test]
fn the_same_call_is_read_in_every_form() {
    for (kind, body) in [
        (
            "application/json",
            r#"[{"client":"local","tgt":"*","fun":"test.ping"}]"#,
        ),
        (
            "application/json; charset=utf-8",
            r#"{"client":"local","tgt":"*","fun":"test.ping"}"#,
        ),
        (
            "text/plain;charset=UTF-8",
            r#"{"client":"local","tgt":"*","fun":"test.ping"}"#,
        ),
        ("", r#"{"client":"local","tgt":"*","fun":"test.ping"}"#),
        (
            "application/x-yaml",
            "- client: local\n  tgt: '*'\n  fun: test.ping\n",
        ),
        (
            "application/x-www-form-urlencoded",
            "client=local&tgt=%2A&fun=test.ping",
        ),
    ] {
        let read = read(kind, body.as_bytes()).unwrap();
        assert_eq!(read.len(), 1, "{kind}");
        assert_eq!(read[0].client().unwrap(), NetapiClient::Local);
        assert_eq!(read[0].function().unwrap(), "test.ping");
        assert_eq!(read[0].target().unwrap().target().expression, "*");
    }
}

#[test]
fn what_is_no_request_is_refused() {
    for (kind, body) in [
        ("application/json", "{"),
        ("application/json", "[]"),
        ("application/json", "7"),
        ("application/json", "[[{}]]"),
        ("application/json", r#"{"fun":"a","fun":"b"}"#),
        ("application/x-yaml", "a: [\n"),
        ("application/x-yaml", "just text"),
        ("application/xml", "<a/>"),
        ("", ""),
    ] {
        let status = read(kind, body.as_bytes()).map_err(|error| error.status().as_u16());
        assert_eq!(status.unwrap_err(), 400, "{kind} {body}");
    }
    let many = format!("[{}]", vec!["{}"; 101].join(","));
    assert!(read("application/json", many.as_bytes()).is_err());
}

#[test]
fn the_older_name_of_the_kind_of_target_counts() {
    let kind = |json| one(json).target().map(|target| target.target().kind);
    let list = r#"{"tgt":"a,b","expr_form":"list"}"#;
    assert_eq!(kind(list).unwrap(), TargetKind::List);
    assert_eq!(kind(r#"{"tgt":["a","b"]}"#).unwrap(), TargetKind::List);
    assert_eq!(
        kind(r#"{"tgt":"a*","tgt_type":null}"#).unwrap(),
        TargetKind::Glob
    );
    for json in [
        r#"{"tgt":"a,b","expr_form":"lists"}"#,
        r#"{"tgt":"a","expr_form":"list","tgt_type":"glob"}"#,
        r#"{"tgt":"a","expr_form":7}"#,
        r#"{"tgt":["a",7]}"#,
        r#"{"tgt":"a and","tgt_type":"compound"}"#,
        r#"{}"#,
    ] {
        assert!(kind(json).is_err(), "{json}");
    }
}

#[test]
fn a_refusal_says_what_is_wrong() {
    let why = |json| one(json).target().unwrap_err().to_string();
    for (json, expected) in [
        (r#"{}"#, "tgt is missing: the minions, such as *"),
        (
            r#"{"tgt":5}"#,
            "tgt has to be a text, or a list of ids, not a number",
        ),
        (
            r#"{"tgt":"G@os:x"}"#,
            "`G@os:x` is a compound target, and no glob: POST a chunk that has tgt_type compound",
        ),
        (
            r#"{"tgt":"*","tgt_type":["glob"]}"#,
            "tgt_type has to be a text, not a list",
        ),
    ] {
        assert_eq!(why(json), expected, "{json}");
    }
    // The message does not repeat a value that may be a password.
    let why = one(r#"{"password":4711}"#).text("password").unwrap_err();
    assert_eq!(why.to_string(), "password has to be a text, not a number");
}

#[test]
fn every_chunk_has_to_name_a_client_and_a_function() {
    let check = |body: &str| {
        let chunks = read("application/json", body.as_bytes()).unwrap();
        check_calls(&chunks).map_err(|error| (error.status().as_u16(), error.to_string()))
    };
    let ping = r#"{"client":"local","fun":"test.ping"}"#;
    let several = r#"{"client":"local_async","fun":["test.ping","test.version"]}"#;
    let run = r#"{"client":"runner","fun":"manage.up"}"#;
    assert_eq!(check(&format!("[{ping},{several},{run}]")), Ok(()));
    let fun = "fun is missing: the function, such as test.ping";
    for (chunk, why) in [
        (r#"{"fun":"test.ping"}"#, "client is missing, such as local"),
        (r#"{"client":"local"}"#, fun),
        (r#"{"client":"local","fun":""}"#, fun),
        (r#"{"client":"wheel","fun":null}"#, fun),
        (
            r#"{"client":"runner","fun":["manage.up"]}"#,
            "fun has to be a text, not a list",
        ),
    ] {
        assert_eq!(check(chunk), Err((400, why.to_owned())), "{chunk}");
        let second = format!("chunk 2 of 3: {why}");
        let body = format!("[{ping},{chunk},{run}]");
        assert_eq!(check(&body), Err((400, second)), "{body}");
    }
    let (status, why) = check(r#"{"client":"ssh","fun":"test.ping"}"#).unwrap_err();
    assert_eq!(status, 400);
    assert!(why.starts_with("there is no client \"ssh\""), "{why}");
}

#[test]
fn a_batch_is_made_where_one_is_asked_for() {
    let batch = |json| one(json).batch();
    for json in [
        r#"{}"#,
        r#"{"batch":null}"#,
        r#"{"batch":""}"#,
        r#"{"batch":false}"#,
    ] {
        assert_eq!(batch(json).unwrap(), None, "{json}");
    }
    assert_eq!(
        batch(r#"{"batch":2}"#).unwrap(),
        Some(BatchSize::Minions(2))
    );
    assert_eq!(
        batch(r#"{"batch":"10%"}"#).unwrap(),
        Some(BatchSize::Percent(10))
    );
    for json in [
        r#"{"batch":0}"#,
        r#"{"batch":"0%"}"#,
        r#"{"batch":[]}"#,
        r#"{"batch":"x"}"#,
    ] {
        assert!(batch(json).is_err(), "{json}");
    }
}

#[test]
fn arguments_stand_in_arg_in_kwarg_and_beside_them() {
    let arguments = |json, beside| call_arguments(&one(json), beside);
    let expected = Arguments {
        positional: vec![Value::from("ls"), Value::Int(1), Value::from("a==b")],
        named: vec![
            ("cwd".to_owned(), "/".into()),
            ("n".to_owned(), Value::Int(7)),
        ],
    };
    let json = r#"{"arg":["ls",1,"a==b","cwd=/"],"kwarg":{"n":7},"tgt":"*"}"#;
    assert_eq!(arguments(json, false).unwrap(), expected);
    let json = r#"{"client":"runner","fun":"x.y","token":"t","arg":"a","jid":"1","tgt":"*","full_return":true}"#;
    let expected = Arguments {
        positional: vec![Value::from("a")],
        named: vec![
            ("jid".to_owned(), "1".into()),
            ("tgt".to_owned(), "*".into()),
        ],
    };
    assert_eq!(arguments(json, true).unwrap(), expected);
    let json = r#"{"arg":["a",{"__kwarg__":true,"b":1}]}"#;
    assert_eq!(
        arguments(json, false).unwrap().named,
        [("b".to_owned(), Value::Int(1))]
    );
    assert!(arguments(r#"{"arg":["a=1"],"kwarg":{"a":2}}"#, false).is_err());
    assert!(arguments(r#"{"kwarg":[1]}"#, false).is_err());
}

proptest! {
    #[test]
    fn any_body_is_read_or_refused(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        kind in prop::sample::select(vec!["application/json", "application/x-yaml", "application/x-www-form-urlencoded", ""]),
    ) {
        let _ = read(kind, &body);
    }

    #[test]
    fn any_chunk_is_a_call_or_refused(
        names in proptest::collection::vec(prop::sample::select(vec![
            "client", "tgt", "tgt_type", "expr_form", "fun", "arg", "kwarg", "batch", "timeout", "subset", "full_return", "delimiter",
        ]), 0..8),
        values in proptest::collection::vec(saline_client::data::arbitrary::values(), 8),
    ) {
        let entries = names.into_iter().map(str::to_owned).zip(values).collect();
        if let Ok(chunk) = Chunk::new(entries) {
            let _ = (chunk.client(), chunk.target(), chunk.function(), chunk.batch(), chunk.seconds("timeout"));
            let _ = (chunk.minions("subset"), chunk.flag("full_return"));
            let _ = (call_arguments(&chunk, true), call_arguments(&chunk, false));
        }
    }
}
