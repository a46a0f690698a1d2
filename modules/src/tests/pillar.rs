//! The pillar that a minion holds, and the functions that show it.

use std::collections::VecDeque;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saline_data::Packed;
use saline_messages::{
    MAX_PILLAR, MinionPillar, Outgoing, Part, PillarRefusal, PillarReply, PillarRequest, TransferId,
};
use saline_protocol::transport::Clock;
use saline_schedule::{Missed, Scheduler, SchedulerFiles};
use tokio::sync::oneshot;

use super::*;
use crate::pending_answer::{NotAnswered, PendingAnswer};
use crate::pillar::{MasterPillar, PillarStore};

type Reply = Result<PillarReply, NotAnswered>;

/// A master whose replies a test prescribes, and that records the requests.
#[derive(Debug, Default, Clone)]
struct Script(Arc<Mutex<(VecDeque<Reply>, Vec<PillarRequest>)>>);

impl Script {
    fn then(&self, reply: PillarReply) -> &Self {
        self.0.lock().unwrap().0.push_back(Ok(reply));
        self
    }

    fn then_not(&self, why: NotAnswered) -> &Self {
        self.0.lock().unwrap().0.push_back(Err(why));
        self
    }

    /// Answers with a whole pillar, and returns its id.
    fn then_pillar(&self, pillar: &MinionPillar) -> TransferId {
        let outgoing = Outgoing::new(pillar.to_bytes());
        let part = outgoing.part(0, usize::MAX);
        let id = part.transfer;
        self.then(PillarReply::Part(part));
        id
    }

    fn asked(&self) -> Vec<PillarRequest> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }
}

impl MasterPillar for Script {
    fn send(&self, request: PillarRequest, _: Duration) -> PendingAnswer<PillarReply> {
        let mut script = self.0.lock().unwrap();
        script.1.push(request);
        let (sender, receiver) = oneshot::channel();
        let unscripted = || Err(NotAnswered::Refused("nothing is scripted".to_owned()));
        sender
            .send(script.0.pop_front().unwrap_or_else(unscripted))
            .unwrap();
        PendingAnswer::over(receiver)
    }

    fn part_size(&self) -> u32 {
        100
    }
}

/// Returns a minion of a scripted master.
fn minion() -> (Bench, Script) {
    let mut bench = Bench::new();
    bench.host.has_bus = true;
    let script = Script::default();
    bench
        .host
        .master_pillar
        .set(Box::new(script.clone()))
        .unwrap();
    (bench, script)
}

fn entries() -> Value {
    Value::map([
        ("role", Value::from("web")),
        ("password", Value::from("hunter2")),
        ("port", Value::Int(443)),
        (
            "sites",
            Value::map([("a", Value::texts(["x"])), ("b", Value::Null)]),
        ),
    ])
}

fn pillar(entries: &Value) -> MinionPillar {
    MinionPillar {
        entries: Some(Packed::pack(entries)),
        errors: Vec::new(),
    }
}

fn with_errors(entries: Option<&Value>, errors: &[&str]) -> MinionPillar {
    MinionPillar {
        entries: entries.map(Packed::pack),
        errors: errors.iter().map(|error| (*error).to_owned()).collect(),
    }
}

const UNMASK: (&str, Value) = ("unmask", Value::Bool(true));

fn hidden() -> Value {
    Value::from("**********")
}

#[test]
fn functions_wait_for_the_first_pillar_and_ask_once() {
    let (bench, script) = minion();
    script.then_not(NotAnswered::Later(Duration::ZERO));
    script.then_pillar(&pillar(&entries()));
    let get = |key: &str| bench.call("pillar.get", &[key.into()], &[UNMASK]);
    assert_eq!(get("role"), Outcome::from("web"));
    assert_eq!(get("sites:a:0"), Outcome::from("x"));
    let asked = script.asked();
    assert_eq!(asked.len(), 2, "the second after the master was away");
    match &asked[0] {
        PillarRequest::Compile {
            saltenv,
            pillarenv,
            known,
            bytes,
        } => {
            assert_eq!((saltenv, pillarenv), (&None, &None));
            assert_eq!((known, *bytes), (&None, 100));
        }
        other => panic!("{other:?}"),
    }
}

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
            "ERROR: the value of role in the pillar is no mapping",
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
        "ERROR: the master has no such environment in pillar_roots"
    );
}

#[test]
fn a_large_pillar_comes_in_parts() {
    let (bench, script) = minion();
    let entries = Value::map([("long", Value::from("x".repeat(250)))]);
    let outgoing = Outgoing::new(pillar(&entries).to_bytes());
    for offset in [0, 100, 200] {
        script.then(PillarReply::Part(outgoing.part(offset, 100)));
    }
    assert_eq!(
        bench.call("pillar.raw", &[], &[UNMASK]),
        Outcome::from(entries)
    );
    match script.asked().as_slice() {
        [
            PillarRequest::Compile { .. },
            PillarRequest::Part { offset: 100, .. },
            PillarRequest::Part {
                offset: 200,
                bytes: 100,
                ..
            },
        ] => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refresh_with_errors_keeps_the_last_pillar_without_any() {
    let (bench, script) = minion();
    let first = script.then_pillar(&pillar(&entries()));
    assert_eq!(
        bench.texts("saltutil.refresh_pillar", &[]),
        Outcome::from(true)
    );
    script.asked();
    script.then(PillarReply::Unchanged);
    assert_eq!(
        bench.texts("saltutil.refresh_pillar", &[]),
        Outcome::from(true)
    );
    match script.asked().as_slice() {
        [PillarRequest::Compile { known, .. }] => assert_eq!(*known, Some(first)),
        other => panic!("{other:?}"),
    }
    // A master that was started anew knows none without errors.
    for sent in [None, Some(&entries())] {
        script.then_pillar(&with_errors(sent, &["web.sls:1:2: no", "b"]));
        let failed = bench.texts("saltutil.refresh_pillar", &[]);
        assert_eq!(
            (text(&failed), failed.retcode),
            (
                "ERROR: the pillar has errors, so the minion keeps the last one without any: web.sls:1:2: no, and 1 more errors",
                1
            )
        );
        let role = bench.call("pillar.get", &["role".into()], &[UNMASK]);
        assert_eq!(role, Outcome::from("web"));
        let errors = Value::texts(["web.sls:1:2: no", "b"]);
        assert_eq!(
            bench.texts("pillar.get", &["_errors"]),
            Outcome::from(errors.clone())
        );
        script.then_pillar(&with_errors(sent, &["web.sls:1:2: no"]));
        let shown = bench.call("pillar.items", &[], &[]);
        assert_eq!(shown.retcode, 1, "a script notices");
        assert_eq!(
            shown.value.get("_errors"),
            Some(&Value::texts(["web.sls:1:2: no"]))
        );
        assert_eq!(shown.value.get("role"), Some(&hidden()));
    }
    script.then_pillar(&pillar(&entries()));
    assert!(bench.texts("saltutil.refresh_pillar", &[]).success());
    assert_eq!(bench.texts("pillar.get", &["_errors"]), Outcome::from(""));
}

#[test]
fn what_is_no_pillar_changes_nothing() {
    let (bench, script) = minion();
    script.then_pillar(&pillar(&entries()));
    bench.texts("saltutil.refresh_pillar", &[]);
    let no_mapping = pillar(&Value::from("hunter2"));
    let damaged = MinionPillar {
        entries: Some(Packed::from_bytes(vec![0xc1])),
        errors: Vec::new(),
    };
    for sent in [no_mapping, damaged] {
        script.then_pillar(&sent);
        let failed = bench.texts("saltutil.refresh_pillar", &[]);
        assert_eq!(
            text(&failed),
            "ERROR: the master sent something that is no pillar"
        );
    }
    script.then(PillarReply::Part(Part {
        transfer: TransferId([0; 32]),
        total: MAX_PILLAR as u64 + 1,
        offset: 0,
        bytes: vec![0; 10],
    }));
    let failed = bench.texts("saltutil.refresh_pillar", &[]);
    assert_eq!(
        text(&failed),
        "ERROR: the pillar has 16777217 bytes, and a minion takes 16777216"
    );
    script.then_not(NotAnswered::Refused("no".to_owned()));
    assert_eq!(
        text(&bench.texts("saltutil.refresh_pillar", &[])),
        "ERROR: no"
    );
    let named = [("timeout", Value::Float(0.01))];
    script.then_not(NotAnswered::Later(Duration::from_millis(20)));
    script.then_not(NotAnswered::Later(Duration::from_millis(20)));
    let late = bench.call("saltutil.refresh_pillar", &[], &named);
    assert_eq!(text(&late), "ERROR: the master did not answer for 0.01s");
    let role = bench.call("pillar.get", &["role".into()], &[UNMASK]);
    assert_eq!(role, Outcome::from("web"));
}

#[tokio::test]
async fn the_end_of_a_refresh_is_told_on_both_buses() {
    let (bench, script) = minion();
    let refresh = |named: &[(&str, Value)]| {
        std::thread::scope(|scope| {
            let call = scope.spawn(|| bench.call("saltutil.refresh_pillar", &[], named));
            call.join().unwrap()
        })
    };
    script.then_pillar(&pillar(&entries()));
    refresh(&[]);
    script.then_pillar(&with_errors(None, &["a"]));
    refresh(&[]);
    for complete in [true, false] {
        let told = bench.host.local_events.next().await;
        assert_eq!(told.item.tag, "salt/minion/minion_pillar_refresh_complete");
        assert_eq!(
            told.item.data.unpack().unwrap(),
            Value::map([("complete", Value::Bool(complete))])
        );
    }
    let (_, events) = bench.host.events.try_next_batch(usize::MAX).unwrap();
    let tags: Vec<&str> = events.iter().map(|event| event.tag.as_str()).collect();
    assert_eq!(tags, ["minion_pillar_refresh_complete"; 2]);
    // Without a wait the minion is asked to do it, and whoever wants it is told.
    assert_eq!(
        refresh(&[("wait", Value::Bool(false))]),
        Outcome::from(true)
    );
    assert!(bench.host.pillar.wanted().await);
    bench.host.pillar.want(false);
    assert!(!bench.host.pillar.wanted().await);
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

#[test]
fn the_pillar_is_on_the_disk_only_where_it_is_kept_there() {
    let (bench, script) = minion();
    let path = bench.folder.path().join("cache/pillar");
    script.then_pillar(&pillar(&entries()));
    bench.texts("saltutil.refresh_pillar", &[]);
    assert!(!path.exists());

    let (bench, script) = minion();
    bench.host.open_pillar_cache(path.clone());
    let known = script.then_pillar(&pillar(&entries()));
    bench.texts("saltutil.refresh_pillar", &[]);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    // Errors are not kept.
    script.then_pillar(&with_errors(Some(&entries()), &["a"]));
    bench.texts("saltutil.refresh_pillar", &[]);

    // The next start has it before the master has answered.
    let (next, script) = minion();
    next.host.open_pillar_cache(path.clone());
    let role = next.call("pillar.get", &["role".into()], &[UNMASK]);
    assert_eq!(role, Outcome::from("web"));
    assert!(script.asked().is_empty());
    script.then(PillarReply::Unchanged);
    assert!(next.texts("saltutil.refresh_pillar", &[]).success());
    match script.asked().as_slice() {
        [PillarRequest::Compile { known: told, .. }] => assert_eq!(*told, Some(known)),
        other => panic!("{other:?}"),
    }

    // One that others could have written is not believed, and a damaged one neither.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let (open, _) = minion();
    open.host.open_pillar_cache(path.clone());
    assert!(open.host.pillar.held().is_none());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, b"hunter2").unwrap();
    let (damaged, _) = minion();
    damaged.host.open_pillar_cache(path.clone());
    assert!(damaged.host.pillar.held().is_none());
    PillarStore::forget_cache(path.clone());
    assert!(!path.exists());
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
fn the_schedule_of_a_pillar_takes_part_and_mistakes_in_it_are_left_out() {
    let (mut bench, script) = minion();
    let files = SchedulerFiles {
        runs: bench.folder.path().join("runs"),
        saved: None,
        awaits_pillar: true,
    };
    let scheduler = Scheduler::open(files, Vec::new(), Missed::Skip, 1, Clock);
    bench.host.schedule = Some(Arc::new(scheduler));
    let job =
        |minutes: Value| Value::map([("function", Value::from("test.ping")), ("minutes", minutes)]);
    let schedule = Value::map([
        ("good", job(Value::Int(5))),
        ("bad", job(Value::from("hunter2"))),
        ("none", Value::from("hunter2")),
    ]);
    let refresh = |schedule: Value| {
        script.then_pillar(&pillar(&Value::map([("schedule", schedule)])));
        assert!(bench.texts("saltutil.refresh_pillar", &[]).success());
        let named = [
            ("return_yaml", Value::Bool(false)),
            ("where", Value::from("pillar")),
        ];
        bench.call("schedule.list", &[], &named).value
    };
    match refresh(schedule) {
        Value::Map(jobs) => assert_eq!((jobs.len(), jobs[0].0.as_str()), (1, "good")),
        other => panic!("{other:?}"),
    }
    let none = Value::map([("schedule", Value::Map(Vec::new()))]);
    for gone in [Value::Null, Value::from("text"), Value::Map(Vec::new())] {
        assert_eq!(refresh(gone), none);
    }
}
