use saline_functions::{Failure, RunsIn, function};
use saline_messages::ArgumentPlace;

use super::super::JobContext;
use super::*;
use crate::functions::BUILT_IN;

#[test]
fn the_simple_ones() {
    let bench = Bench::new();
    assert_eq!(bench.texts("test.ping", &[]), Outcome::from(true));
    assert_eq!(bench.texts("test.echo", &["a b"]), Outcome::from("a b"));
    assert_eq!(bench.texts("test.version", &[]), Outcome::from("0.1.0"));
    assert_eq!(
        bench.call("test.retcode", &[Value::Int(3)], &[]),
        Outcome::new(true, 3)
    );
    assert_eq!(
        bench.call("test.sleep", &[Value::Float(0.001)], &[]),
        Outcome::from(true)
    );
    let arg = bench.call("test.arg", &[Value::Int(1)], &[("x", Value::from("y"))]);
    assert_eq!(
        arg.value,
        Value::map([
            ("args", Value::List(vec![Value::Int(1)])),
            ("kwargs", Value::map([("x", Value::from("y"))])),
        ])
    );
}

/// Panics with what it is given.
#[function]
fn fail(_: &JobContext<'_>, what: String) -> Result<Outcome, Failure> {
    panic!("{what}")
}

#[test]
fn the_text_of_a_panic_is_returned_unless_the_call_has_secrets() {
    let mut bench = Bench::new();
    bench.modules = bench.modules.with("vault", &[&FAIL]);
    let job = bench.job("20261121100000000000");
    let call = |hidden: &[ArgumentPlace]| {
        let arguments = Arguments {
            positional: vec![Value::from("correct horse")],
            named: Vec::new(),
        };
        let (modules, host) = (&bench.modules, &bench.host);
        text(&modules.call_hiding("vault.fail", arguments, hidden, host, job.control())).to_owned()
    };
    assert!(call(&[]).contains("correct horse"));
    let hidden = call(&[ArgumentPlace::Positional(0)]);
    assert!(
        hidden.contains("it panicked") && !hidden.contains("correct"),
        "{hidden}"
    );
}

#[test]
fn a_failure_shows_no_secret_argument() {
    let bench = Bench::new();
    for (name, secret) in [
        ("cwd", "/nosuch-hunter2"),
        ("runas", "hun\"ter2"),
        ("shell", "/hunter2"),
    ] {
        let arguments = Arguments {
            positional: vec!["true".into()],
            named: vec![(name.to_owned(), secret.into())],
        };
        let job = bench.job("20261121100000000000");
        let fail = |hidden: &[ArgumentPlace]| {
            let arguments = arguments.clone();
            let called =
                bench
                    .modules
                    .call_hiding("cmd.run", arguments, hidden, &bench.host, job.control());
            text(&called).to_owned()
        };
        assert!(fail(&[]).contains("ter2"), "{name}");
        let hidden = fail(&[ArgumentPlace::named(name)]);
        assert!(
            !hidden.contains("ter2") && hidden.contains("(secret)"),
            "{hidden}"
        );
    }
}

#[test]
fn bad_arguments_are_answered_as_salt_does() {
    let bench = Bench::new();
    let outcome = bench.texts("test.sleep", &[]);
    assert_eq!(
        text(&outcome),
        "Passed invalid arguments to test.sleep: sleep() missing 1 required positional argument: 'length'\n\
         \n    Waits for `length` seconds, fractions included, and returns `True`. `saltutil.kill_job` ends the wait.\n\
         \n    CLI Example:\n\
         \n        saline '*' test.sleep 20\n"
    );
    assert_eq!((outcome.retcode, outcome.success()), (1, false));
    for (fun, arguments, begins) in [
        (
            "test.echo",
            vec!["a", "b"],
            "echo() takes 1 positional argument but 2 were given",
        ),
        (
            "test.ping",
            vec!["a"],
            "ping() takes 0 positional arguments but 1 was given",
        ),
        (
            "test.retcode",
            vec!["1", "2"],
            "retcode() takes from 0 to 1 positional arguments but 2 were given",
        ),
        (
            "test.sleep",
            vec!["soon"],
            "sleep() expects a number of seconds as 'length', not \"soon\"",
        ),
        (
            "test.sleep",
            vec!["-1"],
            "sleep() expects a number of seconds",
        ),
    ] {
        let outcome = bench.texts(fun, &arguments);
        let expected = format!("Passed invalid arguments to {fun}: {begins}");
        assert!(text(&outcome).starts_with(&expected), "{}", text(&outcome));
    }
    let twice = bench.call("test.echo", &[Value::Int(1)], &[("text", Value::Int(2))]);
    assert!(text(&twice).contains("echo() got multiple values for argument 'text'"));
    let unknown = bench.call("test.ping", &[], &[("x", Value::Int(1))]);
    assert_eq!(
        text(&unknown),
        "ERROR executing 'test.ping': The following keyword arguments are not valid: x=1. The function has no parameters"
    );
}

#[test]
fn what_is_not_there_says_so() {
    let bench = Bench::new();
    for fun in ["nosuch.func", "test.nosuch", "test", "", "test.ping.x"] {
        let outcome = bench.texts(fun, &[]);
        let said = format!("'{fun}' is not available: ");
        assert!(text(&outcome).starts_with(&said), "{outcome:?}");
        assert_eq!((outcome.retcode, outcome.success()), (254, false));
    }
    for (fun, hint) in [
        ("test.pnig", "did you mean test.ping?"),
        (
            "test.nosuch",
            "saline '*' -d test lists the functions of this module.",
        ),
        (
            "nosuch.install",
            "this minion has the modules beacons, cmd, ",
        ),
    ] {
        let outcome = bench.texts(fun, &[]);
        let said = format!("'{fun}' is not available: {hint}");
        assert!(text(&outcome).starts_with(&said), "{outcome:?}");
    }
}

#[test]
fn a_process_of_one_call_has_the_modules_that_the_call_needs() {
    let modules = |fun: &str| {
        let names = Modules::for_call(fun).names();
        let mut modules: Vec<String> = names
            .iter()
            .filter_map(|name| Some(name.split_once('.')?.0.to_owned()))
            .collect();
        modules.dedup();
        modules
    };
    assert_eq!(modules("cmd.run"), ["cmd"]);
    assert_eq!(modules("cmd.run,file.touch,cmd.run"), ["cmd", "file"]);
    let all = Modules::of_this_machine().names();
    for fun in [
        "cmd.rnu",
        "cmd.run,sys.doc",
        "test.try",
        "own.function",
        "cmd",
        "",
    ] {
        assert_eq!(Modules::for_call(fun).names(), all, "{fun}");
    }
}

#[test]
fn an_exception_is_a_failed_return() {
    let bench = Bench::new();
    let outcome = bench.texts("test.exception", &["Oh noes!"]);
    assert_eq!(
        text(&outcome),
        "The minion function caused an exception: Oh noes!"
    );
    assert_eq!(outcome.retcode, 1);
}

/// Panics.
#[function]
fn panics(_: &JobContext<'_>, #[default("purpose")] on: String) -> bool {
    panic!("on {on}");
}

/// Fails.
#[function]
fn says_no(_: &JobContext<'_>) -> Value {
    Value::map([("result", Value::Bool(false))])
}

#[test]
fn a_panic_is_a_failed_return() {
    let mut bench = Bench::new();
    bench.modules = Modules::built_in().with("odd", &[&PANICS, &SAYS_NO]);
    let outcome = bench.texts("odd.panics", &[]);
    assert_eq!(
        text(&outcome),
        "The minion function caused an exception: on purpose"
    );
    assert_eq!(outcome.retcode, 1);
    assert_eq!(bench.texts("odd.says_no", &[]).retcode, 1);
    assert!(bench.texts("test.ping", &[]).success());
}

#[test]
fn a_stopping_minion_interrupts_a_sleep() {
    let bench = Bench::new();
    bench.host.stop.raise();
    let outcome = bench.call("test.sleep", &[Value::Int(1000)], &[]);
    assert_eq!(text(&outcome), "The minion stopped while it ran this job");
    assert_eq!(outcome.retcode, 130);
}

#[test]
fn grains_are_found_by_path() {
    let bench = Bench::new();
    let get = |key: &str| bench.texts("grains.get", &[key]).value;
    assert_eq!(get("id"), Value::from("m000"));
    assert_eq!(get("saltversioninfo:1"), Value::Int(1));
    assert_eq!(get("no:such"), Value::from(""));
    assert_eq!(
        bench.texts("grains.get", &["nosuch", "x"]).value,
        Value::from("x")
    );
    let item = bench.texts("grains.item", &["id", "nosuch"]).value;
    assert_eq!(
        item,
        Value::map([("id", Value::from("m000")), ("nosuch", Value::from(""))])
    );
    let Value::List(names) = bench.texts("grains.ls", &[]).value else {
        panic!("a list");
    };
    assert!(names.contains(&Value::from("kernel")));
    assert!(
        bench
            .texts("grains.items", &[])
            .value
            .get("kernel")
            .is_some()
    );
}

#[test]
fn documentation_is_for_everything_and_narrowed_by_name() {
    let bench = Bench::new();
    let Value::Map(all) = bench.texts("sys.doc", &[]).value else {
        panic!("a mapping");
    };
    let Value::List(names) = bench.texts("sys.list_functions", &[]).value else {
        panic!("a list");
    };
    assert_eq!(all.len(), names.len());
    for (name, doc) in &all {
        let doc = doc.as_str().unwrap();
        assert!(
            doc.contains("CLI Example:\n\n        saline '*' "),
            "{name}: {doc}"
        );
        assert!(doc.contains(name.as_str()), "{name}: {doc}");
    }
    let names = |arguments: &[&str]| match bench.texts("sys.list_functions", arguments).value {
        Value::List(names) => names.len(),
        _ => 0,
    };
    assert_eq!(names(&["grains"]), 15);
    assert_eq!(names(&["cmd.run*"]), 5);
    assert_eq!(names(&["test.ping", "sys."]), 6);
    assert_eq!(names(&["te"]), 0);
    assert_eq!(
        bench.texts("sys.list_modules", &[]).value,
        Value::texts(BUILT_IN.iter().map(|module| module.name))
    );
    assert_eq!(
        bench.texts("sys.list_modules", &["s*"]).value,
        Value::texts(
            BUILT_IN
                .iter()
                .map(|module| module.name)
                .filter(|name| name.starts_with('s'))
        )
    );
}

#[test]
fn signatures_are_those_of_salt() {
    let bench = Bench::new();
    let argspec = bench.texts("sys.argspec", &["cmd.run"]).value;
    let run = argspec.get("cmd.run").unwrap();
    let Some(Value::List(names)) = run.get("args") else {
        panic!("{argspec:?}");
    };
    let first = ["cmd", "cwd", "stdin", "runas", "group", "shell"];
    assert_eq!(names[..6], first.map(Value::from));
    let Some(Value::List(defaults)) = run.get("defaults") else {
        panic!("{argspec:?}");
    };
    assert_eq!(
        (defaults.len() + 1, &defaults[0]),
        (names.len(), &Value::Null)
    );
    let all = bench.texts("sys.argspec", &[]).value;
    let item = Value::map([
        ("args", Value::Null),
        ("defaults", Value::Null),
        ("varargs", Value::Bool(true)),
        ("kwargs", Value::Bool(true)),
    ]);
    assert_eq!(all.get("grains.item"), Some(&item));
    let send = all.get("event.send").unwrap();
    let names = "tag data preload with_env with_grains with_pillar show_changed with_env_opts timeout unmask";
    assert_eq!(
        send.get("args"),
        Some(&Value::texts(names.split_whitespace()))
    );
    assert_eq!(send.get("kwargs"), Some(&Value::Bool(true)));
}

#[test]
fn a_grain_that_is_missing_has_the_given_default() {
    let bench = Bench::new();
    let keys = ["nosuch".into(), "saltversioninfo|1".into()];
    let named = [("default", Value::Int(7)), ("delimiter", "|".into())];
    let item = bench.call("grains.item", &keys, &named).value;
    let expected = [
        ("nosuch", Value::Int(7)),
        ("saltversioninfo|1", Value::Int(1)),
    ];
    assert_eq!(item, Value::map(expected));
    let unknown = bench.call("grains.item", &keys, &[("defualt", Value::Int(7))]);
    assert_eq!(
        text(&unknown),
        "ERROR executing 'grains.item': The following keyword arguments are not valid: defualt=7. Did you mean 'default'?"
    );
}

#[test]
fn a_function_of_a_module_that_was_left_out_says_what_the_machine_lacks() {
    let outcome = Outcome::lacking("pkg.install", "apt-get");
    assert_eq!(
        (text(&outcome), outcome.retcode),
        (
            "'pkg.install' is not available: this machine has no apt-get",
            254
        )
    );
}

#[test]
fn a_job_of_several_functions_returns_each_by_its_name() {
    let bench = Bench::new();
    let lists: Vec<Value> = ["[a]", "[3]", "[]"]
        .map(|text| saline_data::yaml::parse(text).unwrap())
        .into();
    let several = "test.echo,test.retcode,test.nope";
    let outcome = bench.call(several, &lists, &[]);
    assert_eq!(outcome.retcode, 3);
    let get = |fun| outcome.value.get(fun);
    assert_eq!(get("test.echo"), Some(&"a".into()));
    assert_eq!(get("test.retcode"), Some(&Value::Bool(true)));
    let unknown = get("test.nope").and_then(Value::as_str).unwrap();
    assert!(
        unknown.starts_with("'test.nope' is not available"),
        "{unknown}"
    );
    let short = bench.call(several, &lists[..2], &[]);
    let refused = "ERROR executing 'test.echo,test.retcode,test.nope': 3 functions have 2 lists of arguments: ";
    assert!(text(&short).starts_with(refused), "{short:?}");
}

#[test]
fn changes_and_commands_run_in_processes_of_their_own_and_what_acts_on_the_minion_does_not() {
    let modules = Modules::built_in();
    for fun in [
        "cmd.run",
        "cmd.retcode",
        "file.write",
        "hosts.add_host",
        "test.ping,cmd.run",
    ] {
        assert!(modules.wants_own_process(fun), "{fun}");
    }
    for fun in [
        "test.ping",
        "test.ping,status.uptime",
        "saltutil.running",
        "saltutil.running,cmd.run",
        "event.send",
        "system.reboot",
        "nosuch.function",
    ] {
        assert!(!modules.wants_own_process(fun), "{fun}");
    }
    for (name, function) in modules.registry.iter() {
        let acts_on_minion = ["saltutil.", "event."].iter().any(|m| name.starts_with(m));
        if acts_on_minion {
            assert_eq!(function.runs_in, RunsIn::MinionsProcess, "{name}");
        } else if function.changes {
            assert_ne!(function.runs_in, RunsIn::AnyProcess, "{name}");
        }
    }
}
