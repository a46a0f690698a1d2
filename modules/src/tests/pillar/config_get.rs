//! `config.get`, for which the pillar is one place of several.

use super::*;

#[test]
fn config_get_looks_into_the_pillar_behind_options_and_grains() {
    let (bench, script) = minion();
    script.then_pillar(&pillar(&Value::map([
        ("id", Value::from("hidden by the grain")),
        ("db", Value::map([("password", Value::from("hunter2"))])),
        (
            "master",
            Value::map([("interface", Value::from("0.0.0.0"))]),
        ),
    ])));
    let get =
        |key: &str, named: &[(&str, Value)]| bench.call("config.get", &[key.into()], named).value;
    assert_eq!(get("id", &[]), Value::from("m000"));
    assert!(script.asked().is_empty(), "the grain is enough");
    assert_eq!(get("db:password", &[]), hidden());
    assert_eq!(get("db:password", &[UNMASK]), Value::from("hunter2"));
    assert_eq!(get("interface", &[UNMASK]), Value::from("0.0.0.0"));
    let omit = |name: &'static str| (name, Value::Bool(true));
    assert_eq!(get("db", &[omit("omit_pillar")]), Value::from(""));
    assert_eq!(get("interface", &[omit("omit_master")]), Value::from(""));
    assert_eq!(
        get("id", &[omit("omit_grains"), UNMASK]),
        Value::from("hidden by the grain")
    );
    let all = bench.call("config.option", &["d*".into()], &[omit("wildcard")]);
    let db = all.value.get("db").cloned();
    assert_eq!(db, Some(Value::map([("password", hidden())])));
}

#[test]
fn config_get_merges_what_the_places_have() {
    let config = |shown: Value| {
        let bench = Bench::with(move |config| config.shown = shown);
        let script = Script::default();
        bench
            .host
            .master_pillar
            .set(Box::new(script.clone()))
            .unwrap();
        script.then_pillar(&pillar(&Value::map([(
            "app",
            Value::map([
                ("a", Value::Int(1)),
                (
                    "deep",
                    Value::map([("x", Value::Int(1)), ("y", Value::Int(1))]),
                ),
            ]),
        )])));
        bench
    };
    let shown = Value::map([(
        "app",
        Value::map([
            ("b", Value::Int(2)),
            ("deep", Value::map([("x", Value::Int(2))])),
        ]),
    )]);
    let merged = |how: &str| {
        let named = [UNMASK, ("merge", Value::from(how))];
        let bench = config(shown.clone());
        bench.call("config.get", &["app".into()], &named).value
    };
    let deep = |how: &str| merged(how).get("deep").cloned().unwrap();
    assert_eq!(
        deep("recurse"),
        Value::map([("x", Value::Int(2)), ("y", Value::Int(1))])
    );
    assert_eq!(deep("overwrite"), Value::map([("x", Value::Int(2))]));
    for how in ["recurse", "overwrite"] {
        assert_eq!(merged(how).get("a"), Some(&Value::Int(1)));
        assert_eq!(merged(how).get("b"), Some(&Value::Int(2)));
    }
    let named = [("merge", Value::from("shallow"))];
    let refused = config(shown.clone()).call("config.get", &["app".into()], &named);
    assert!(!refused.success(), "{refused:?}");
}
