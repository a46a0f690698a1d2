//! The modules about the minion itself: `config`, `key`, `sys`, `test`.

use super::*;

#[test]
fn options_are_shown_with_secrets_hidden() {
    let bench = Bench::with(|config| {
        config.shown = Value::map([
            ("log_level", Value::from("warning")),
            ("recon_max", Value::Int(10_000)),
            ("recon_default", Value::Int(200)),
            (
                "tcp",
                Value::map([("password", Value::from("** hidden **"))]),
            ),
        ]);
    });
    let call = |fun: &str, name: &str, named: &[(&str, Value)]| {
        bench.call(fun, &[name.into()], named).value
    };
    assert_eq!(call("config.get", "log_level", &[]), "warning".into());
    assert_eq!(
        call("config.get", "tcp:password", &[]),
        "** hidden **".into()
    );
    assert_eq!(call("config.get", "id", &[]), "m000".into());
    assert_eq!(
        call("config.get", "id", &[("omit_grains", true.into())]),
        "".into()
    );
    assert_eq!(
        call("config.option", "nothing", &[("default", Value::Int(1))]),
        Value::Int(1)
    );
    let some = call("config.option", "recon_*", &[("wildcard", true.into())]);
    assert_eq!(
        some,
        Value::map([
            ("recon_default", Value::Int(200)),
            ("recon_max", Value::Int(10_000))
        ])
    );
    assert_eq!(
        bench.texts("test.get_opts", &[]),
        bench.texts("config.items", &[])
    );
}

#[test]
fn fingerprints_are_those_of_the_keys() {
    let bench = Bench::new();
    assert_eq!(bench.texts("key.finger", &[]), Outcome::from(""));
    assert_eq!(bench.texts("key.finger_master", &[]), Outcome::from(""));
    let pki = &bench.host.pki_dir;
    let own = saline_channel::Identity::load_or_create(pki).unwrap();
    assert_eq!(
        bench.texts("key.finger", &[]),
        Outcome::from(own.public().fingerprint())
    );
    let master = saline_channel::Identity::generate().unwrap().public();
    std::fs::write(pki.join("master.pub"), master.to_pem()).unwrap();
    assert_eq!(
        bench.texts("key.finger_master", &[]),
        Outcome::from(master.fingerprint())
    );
    assert!(!bench.texts("key.finger", &["md5"]).success());
    std::fs::write(pki.join("identity.pub"), "secret?").unwrap();
    let unreadable = bench.texts("key.finger", &[]);
    assert!(!text(&unreadable).contains("secret?"), "{unreadable:?}");
}

#[test]
fn a_function_of_test_calls_another() {
    let bench = Bench::new();
    let call = |fun: &str, positional: &[&str]| bench.texts(fun, positional);
    assert_eq!(
        call("test.cross_test", &["test.echo", "a"]),
        Outcome::from("a")
    );
    assert_eq!(call("test.cross_test", &["test.retcode"]).retcode, 42);
    assert_eq!(
        call("test.try", &["test.exception"]),
        Outcome::from(Value::Null)
    );
    let named = [("return_try_exception", Value::from("failed"))];
    assert_eq!(
        bench.call("test.try", &["test.exception".into()], &named),
        Outcome::from("failed")
    );
    for endless in [
        "test.cross_test",
        "test.try",
        "test.ping,test.ping",
        "cmd.run",
    ] {
        assert!(
            !call("test.cross_test", &[endless, endless]).success(),
            "{endless}"
        );
    }
}

#[test]
fn functions_of_test_tell_what_arrives() {
    let bench = Bench::new();
    let arguments = [Value::Int(1), "1".into(), Value::Null];
    let named = [("x", Value::Bool(true))];
    let types = bench.call("test.arg_type", &arguments, &named).value;
    assert_eq!(
        types.get("args"),
        Some(&Value::texts(["int", "text", "null"]))
    );
    assert_eq!(
        types.get("kwargs"),
        Some(&Value::map([("x", Value::from("bool"))]))
    );
    let written = bench.call("test.arg_repr", &arguments, &[]).value;
    assert_eq!(
        written.get("args"),
        Some(&Value::texts(["1", "\"1\"", "null"]))
    );
    let numbers = |fun: &str, number: i64| match bench.call(fun, &[Value::Int(number)], &[]).value {
        Value::List(numbers) => numbers
            .iter()
            .map(|n| n.as_i64().unwrap())
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(numbers("test.fib", 10), [0, 1, 1, 2, 3, 5, 8]);
    assert_eq!(numbers("test.collatz", 6), [6, 3, 10, 5, 16, 8, 4, 2, 1]);
    // Neither ends in an overflow.
    assert!(
        bench
            .call("test.fib", &[Value::UInt(u64::MAX)], &[])
            .success()
    );
    assert!(
        bench
            .call("test.collatz", &[Value::UInt(u64::MAX)], &[])
            .success()
    );
    assert_eq!(
        text(&bench.call("test.rand_str", &[Value::Int(24)], &[])).len(),
        24
    );
    assert_eq!(text(&bench.texts("test.random_hash", &[])).len(), 64);
    assert!(
        !bench
            .call("test.random_hash", &[], &[("hash_type", "md5".into())])
            .success()
    );
    assert!(
        bench
            .call("test.rand_sleep", &[Value::Float(0.001)], &[])
            .success()
    );
    assert!(
        !bench
            .call("test.assertion", &[Value::Bool(false)], &[])
            .success()
    );
    assert_eq!(bench.texts("test.false", &[]), Outcome::from(false));
    assert_eq!(bench.texts("test.not_loaded", &[]).retcode, 254);
    assert!(text(&bench.texts("test.versions", &[])).contains("Saline: "));
    let report = bench.texts("test.module_report", &[]).value;
    let Some(Value::List(modules)) = report.get("modules") else {
        panic!("{report:?}")
    };
    assert!(
        modules.contains(&"ssh".into())
            && modules.iter().filter(|m| **m == "cmd".into()).count() == 1
    );
}
