//! The functions that show the pillar, and what they hide.

use saline_messages::PillarRefusal;

use super::*;

#[test]
fn values_are_hidden_unless_somebody_wants_to_see_them() {
    let (bench, script) = minion();
    script.then_pillar(&pillar(&entries()));
    let call = |fun: &str, keys: &[&str], named: &[(&str, Value)]| {
        let keys: Vec<Value> = keys.iter().map(|key| Value::from(*key)).collect();
        bench.call(fun, &keys, named)
    };
    let masked = Value::map([
        ("role", hidden()),
        ("password", hidden()),
        ("port", hidden()),
        (
            "sites",
            Value::map([("a", Value::List(vec![hidden()])), ("b", Value::Null)]),
        ),
    ]);
    assert_eq!(call("pillar.raw", &[], &[]), Outcome::from(masked.clone()));
    assert_eq!(call("pillar.raw", &[], &[UNMASK]), Outcome::from(entries()));
    assert_eq!(call("pillar.raw", &["role"], &[]), Outcome::from(hidden()));
    assert_eq!(
        call("pillar.raw", &["none"], &[]),
        Outcome::from(Value::Map(Vec::new()))
    );
    assert_eq!(call("pillar.get", &["password"], &[]).value, hidden());
    let two = call("pillar.item", &["port", "none"], &[]).value;
    assert_eq!(
        two,
        Value::map([("port", hidden()), ("none", Value::from(""))])
    );
    let two = call(
        "pillar.item",
        &["port", "none"],
        &[UNMASK, ("default", Value::Int(1))],
    )
    .value;
    assert_eq!(
        two,
        Value::map([("port", Value::Int(443)), ("none", Value::Int(1))])
    );
    assert_eq!(
        call("pillar.items", &["role"], &[]).value,
        Value::map([("role", hidden())])
    );
    assert_eq!(
        call("pillar.keys", &["sites"], &[]).value,
        Value::texts(["a", "b"])
    );
    for (key, why) in [
        (
            "role",
            "ERROR: the value of role in the pillar is not a mapping",
        ),
        ("none", "ERROR: the pillar has no key none"),
    ] {
        let refused = call("pillar.keys", &[key], &[]);
        assert_eq!((text(&refused), refused.retcode), (why, 1));
    }
    assert_eq!(script.asked().len(), 1, "nothing of this asks the master");

    script.then_pillar(&pillar(&entries()));
    assert_eq!(call("pillar.items", &[], &[]), Outcome::from(masked));
    script.then_pillar(&pillar(&entries()));
    let names = call("pillar.ls", &[], &[]);
    assert_eq!(
        names.value,
        Value::texts(["role", "password", "port", "sites"])
    );
    script.then_pillar(&pillar(&entries()));
    let types = call("pillar.obfuscate", &[], &[]).value;
    assert_eq!(
        types,
        Value::map([
            ("role", Value::from("<str>")),
            ("password", Value::from("<str>")),
            ("port", Value::from("<int>")),
            (
                "sites",
                Value::map([
                    ("a", Value::texts(["<str>"])),
                    ("b", Value::from("<NoneType>"))
                ])
            ),
        ])
    );
    assert_eq!(script.asked().len(), 3);
}

#[test]
fn a_value_is_merged_over_its_default() {
    let (bench, script) = minion();
    let entries = Value::map([
        (
            "map",
            Value::map([("a", Value::Int(2)), ("l", Value::texts(["y"]))]),
        ),
        ("list", Value::texts(["b"])),
    ]);
    script.then_pillar(&pillar(&entries));
    let get = |key: &str, default: Value, nested: bool| {
        let named = [
            UNMASK,
            ("default", default),
            ("merge", Value::Bool(true)),
            ("merge_nested_lists", Value::Bool(nested)),
        ];
        bench.call("pillar.get", &[key.into()], &named).value
    };
    let default = Value::map([
        ("a", Value::Int(1)),
        ("l", Value::texts(["x"])),
        ("c", Value::Int(3)),
    ]);
    let expected = |list: &[&str]| {
        Value::map([
            ("a", Value::Int(2)),
            ("l", Value::texts(list.iter().copied())),
            ("c", Value::Int(3)),
        ])
    };
    assert_eq!(get("map", default.clone(), false), expected(&["y"]));
    assert_eq!(get("map", default.clone(), true), expected(&["x", "y"]));
    assert_eq!(
        get("list", Value::texts(["a", "b"]), false),
        Value::texts(["a", "b"])
    );
    assert_eq!(get("list", default.clone(), false), Value::texts(["b"]));
    assert_eq!(get("none", default.clone(), false), default);
}

#[test]
fn an_environment_has_a_pillar_that_is_not_held() {
    let (bench, script) = minion();
    script.then_pillar(&pillar(&Value::map([("a", Value::from("held"))])));
    bench.texts("saltutil.refresh_pillar", &[]);
    script.asked();
    script.then_pillar(&pillar(&Value::map([("a", Value::from("dev"))])));
    let named = [UNMASK, ("pillarenv", Value::from("dev"))];
    let dev = bench.call("pillar.get", &["a".into()], &named);
    assert_eq!(dev, Outcome::from("dev"));
    match script.asked().as_slice() {
        [
            PillarRequest::Compile {
                pillarenv, known, ..
            },
        ] => {
            assert_eq!((pillarenv.as_deref(), known), (Some("dev"), &None));
        }
        other => panic!("{other:?}"),
    }
    let held = bench.call("pillar.get", &["a".into()], &[UNMASK]);
    assert_eq!(held, Outcome::from("held"));
    script.then(PillarReply::Refused(PillarRefusal::NoEnvironment));
    let refused = bench.call("pillar.items", &[], &[("saltenv", Value::from("none"))]);
    assert_eq!(
        text(&refused),
        "ERROR: the master has no environment \"none\" in pillar_roots, or this minion may not read it"
    );
}

#[test]
fn without_a_master_there_is_no_pillar() {
    let bench = Bench::new();
    for fun in ["pillar.items", "pillar.raw", "pillar.ls"] {
        assert_eq!(
            text(&bench.texts(fun, &[])),
            "ERROR: the pillar comes from the master, and no master takes part in this call (--local)"
        );
    }
    assert_eq!(
        text(&bench.texts("saltutil.refresh_pillar", &[])),
        "ERROR: the pillar belongs to the running minion: have it refreshed with `saline`"
    );
    assert_eq!(bench.texts("config.get", &["nothing"]), Outcome::from(""));
}

#[test]
fn nothing_of_a_pillar_is_shown_by_mistake() {
    let (bench, script) = minion();
    script.then_pillar(&with_errors(Some(&entries()), &["hunter2 is no number"]));
    bench.texts("pillar.raw", &[]);
    let shown = format!("{:?}", bench.host);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("Pillar(4 entries, 1 errors)"), "{shown}");
}

#[test]
fn functions_of_the_mine_come_from_the_pillar_too() {
    let (mut bench, script) = minion();
    bench.host.mine = crate::mine::MineSettings::new(saline_config::MineConfig {
        functions: vec![
            saline_config::MineFunction::read("test.echo", &Value::texts(["own"])).unwrap(),
        ],
        ..saline_config::MineConfig::default()
    });
    let functions = saline_data::yaml::parse(
        "{test.echo: [of the pillar], more: {mine_function: test.ping}, broken: hunter2}",
    );
    let entries = Value::map([("mine_functions", functions.unwrap())]);
    script.then_pillar(&pillar(&entries));
    let shown = saline_data::yaml::parse("{test.echo: [own], more: {test.ping: []}}").unwrap();
    assert_eq!(bench.texts("mine.valid", &[]).value, shown);
    let updated = bench.texts("mine.update", &[]);
    assert!(
        text(&updated).contains("no master takes part"),
        "{updated:?}"
    );
}

#[test]
fn an_event_gets_what_it_is_to_have_of_the_minion() {
    let (bench, script) = minion();
    script.then_pillar(&pillar(&entries()));
    let sent = |named: &[(&str, Value)]| {
        let data = Value::map([("files", Value::Int(7))]);
        let fired = bench.call("event.send", &["backup/done".into(), data], named);
        assert_eq!(fired, Outcome::from(true));
        let (_, events) = bench.host.events.try_next_batch(usize::MAX).unwrap();
        events.last().unwrap().data.unpack().unwrap()
    };
    let files = ("files", Value::Int(7));
    let grains = bench.host.grains.all();
    let kernel = grains.get("kernel").unwrap().clone();
    for (named, expected) in [
        (
            ("with_grains", Value::texts(["kernel", "none"])),
            ("grains", Value::map([("kernel", kernel)])),
        ),
        (
            ("with_grains", Value::Bool(true)),
            ("grains", grains.as_ref().clone()),
        ),
        (
            ("with_pillar", Value::from("password, port")),
            (
                "pillar",
                Value::map([("password", hidden()), ("port", hidden())]),
            ),
        ),
    ] {
        assert_eq!(sent(&[named]), Value::map([expected, files.clone()]));
    }
    let shown = sent(&[("with_pillar", Value::texts(["port"])), UNMASK]);
    let port = ("pillar", Value::map([("port", Value::Int(443))]));
    assert_eq!(shown, Value::map([port, files.clone()]));
    assert_eq!(
        sent(&[
            ("with_env_opts", Value::Bool(true)),
            ("more", Value::Int(1)),
            ("files", Value::Int(1))
        ]),
        Value::map([
            ("saltenv", Value::from("base")),
            ("pillarenv", Value::Null),
            ("more", Value::Int(1)),
            files.clone(),
        ])
    );
    let nothing = sent(&[("with_grains", Value::Bool(false))]);
    assert_eq!(nothing, Value::map([files]));
    let wrong = bench.call(
        "event.send",
        &["a/b".into()],
        &[("with_grains", Value::Int(1))],
    );
    assert!(
        wrong
            .value
            .as_str()
            .unwrap()
            .contains("True, False or a list of names"),
        "{wrong:?}"
    );
    let preload = bench.call("event.send", &["a/b".into()], &[("preload", entries())]);
    assert!(
        preload.value.as_str().unwrap().contains("not supported"),
        "{preload:?}"
    );
}
