//! How the pillar comes from the master, and what the minion keeps of it.

use std::os::unix::fs::PermissionsExt;

use saline_messages::{MAX_PILLAR, Part};
use saline_protocol::transport::Clock;
use saline_schedule::{Missed, Scheduler, SchedulerFiles};

use super::*;
use crate::pillar::{Exchanged, PillarStore};

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
    // A master that was restarted knows none without errors.
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
fn a_minion_whose_first_pillar_has_errors_has_none() {
    let (bench, script) = minion();
    script.then_pillar(&with_errors(None, &["web.sls:1:2: no"]));
    let failed = bench.texts("saltutil.refresh_pillar", &[]);
    assert_eq!(
        text(&failed),
        "ERROR: the pillar has errors, so the minion has none: web.sls:1:2: no"
    );
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
            "ERROR: the master sent something that is not a pillar"
        );
    }
    script.then(PillarReply::Part(Part {
        transfer: TransferId([0; 32]),
        total: MAX_PILLAR as u64 + 1,
        offset: 0,
        bytes: vec![0; 10].into(),
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

#[test]
fn a_first_pillar_with_errors_forgets_nothing_of_the_schedule() {
    let (mut bench, script) = minion();
    let open = |folder: &std::path::Path| {
        let files = SchedulerFiles {
            runs: folder.join("runs"),
            saved: None,
            awaits_pillar: true,
        };
        Arc::new(Scheduler::open(files, Vec::new(), Missed::Skip, 1, Clock))
    };
    let job = [
        ("function", Value::from("test.ping")),
        ("hours", Value::Int(1)),
    ];
    let schedule = Value::map([("hourly", Value::map(job))]);
    let good = pillar(&Value::map([("schedule", schedule)]));
    let bad = with_errors(None, &["a.sls:1:1: no"]);
    let last_run = |bench: &Bench| {
        let scheduler = bench.host.schedule.as_ref().unwrap();
        scheduler
            .status("hourly")
            .and_then(|status| status.last_run)
    };
    let first = open(bench.folder.path());
    bench.host.schedule = Some(Arc::clone(&first));
    script.then_pillar(&good);
    bench.texts("saltutil.refresh_pillar", &[]);
    let context = saline_protocol::transport::Context::default();
    let running = Arc::clone(&first).run(context, |_, _| {});
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let _ = runtime.unwrap().block_on(async {
        let day = Clock.after(Duration::from_secs(86_400));
        Clock.deadline(day, running).await
    });
    let ran = last_run(&bench);
    assert!(ran.is_some());
    first.stop();
    drop(first);

    // The minion restarts, and its first pillar has errors.
    bench.host.schedule = Some(open(bench.folder.path()));
    bench.host.pillar = PillarStore::default();
    for sent in [&bad, &bad, &good] {
        script.then_pillar(sent);
        bench.texts("saltutil.refresh_pillar", &[]);
    }
    assert_eq!(last_run(&bench), ran);
}

#[test]
fn a_pillar_that_was_compiled_earlier_takes_no_later_ones_place() {
    let (bench, _) = minion();
    let role = |role: &str| Value::map([("role", Value::from(role))]);
    let (old, new) = (pillar(&role("old")), pillar(&role("new")));
    let [old, new] = [old, new].map(|pillar| Outgoing::new(pillar.to_bytes()));
    let mut earlier = bench.host.own_pillar_exchange();
    let mut later = bench.host.own_pillar_exchange();
    let part = |outgoing: &Outgoing, offset, bytes| PillarReply::Part(outgoing.part(offset, bytes));
    assert!(earlier.take(part(&old, 0, 5)).unwrap().is_none());
    let whole = |exchanged| match exchanged {
        Some(Exchanged::Whole(received)) => received,
        other => panic!("{other:?}"),
    };
    let newer = whole(later.take(part(&new, 0, 1_000)).unwrap());
    let older = whole(earlier.take(part(&old, 5, 1_000)).unwrap());
    for received in [newer, older] {
        let held = bench.host.hold_pillar(received).unwrap();
        assert_eq!(held.entries.get("role"), Some(&Value::from("new")));
    }
    let held = bench.host.pillar.held().unwrap();
    assert_eq!(held.entries.get("role"), Some(&Value::from("new")));
}
