//! The reactor in a master without a network.

use std::path::Path;
use std::time::Duration;

use saline_config::{Reaction, ReactionFile};
use saline_data::Value;
use saline_messages::{Arguments, Event, RequestId, RunKind, RunnerCall, RunnerEnd, decode};
use saline_protocol::transport::{Clock, Context};
use saline_targeting::Glob;

use crate::authorize::Principal;
use crate::events::{EventReader, REACTOR};
use crate::parts::testing::TestMaster;
use crate::runners::Runners;

fn reaction(tag: &str, file: &Path) -> Reaction {
    Reaction {
        tag: tag.to_owned(),
        glob: Glob::compile(tag).unwrap(),
        files: vec![ReactionFile::Path(file.to_owned())],
    }
}

/// Fires an event as an operator does.
async fn fire(master: &TestMaster, tag: &str, number: i64) {
    let data = vec![("n".to_owned(), Value::Int(number))];
    let origin = saline_messages::EventOrigin::operator("root");
    let events = master.state.runner_parts().events;
    events.sent_by(origin, tag, data).await.unwrap();
}

/// Returns the numbers in the kept events with this tag, when there are so many.
async fn numbers(master: &TestMaster, tag: &str, count: usize) -> Vec<i64> {
    let parts = master.state.runner_parts();
    let deadline = Clock.after(Duration::from_secs(60));
    loop {
        let reader = EventReader::new(&parts.jobs, &parts.durable).unwrap();
        let page = reader.read(Default::default(), usize::MAX).await.unwrap();
        let events = page.events.into_iter().map(|read| read.event.unwrap());
        let of_tag = events.filter(|event| event.tag == tag);
        let numbers: Vec<i64> = of_tag
            .map(|event| event.data.get("n").and_then(Value::as_i64).unwrap())
            .collect();
        if numbers.len() >= count {
            return numbers;
        }
        assert!(Clock.now() < deadline, "{numbers:?}");
        tokio::task::yield_now().await;
    }
}

fn start(master: &TestMaster) -> Context {
    let mut reactor = master
        .state
        .reactor(Runners::new(master.state.runner_parts()));
    reactor.context = master.context.child();
    let context = reactor.context.clone();
    context.spawn(reactor.run());
    context
}

async fn stop(context: Context) {
    context.cancel.cancel();
    context.tracker.close();
    context.tracker.wait().await;
}

#[tokio::test]
async fn events_of_a_time_without_a_reactor_are_reacted_to_in_their_order_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer.sls");
    let text = "answer:\n  runner.event.send:\n    - args:\n      - done/x\n      - data: {n: {{ data['n'] }}}\n";
    std::fs::write(&file, text).unwrap();
    let master = TestMaster::start(|config| {
        config.reactor.reactions = vec![reaction("go/*", &file)];
        config.durable_events = vec!["done/*".to_owned()];
    })
    .await;
    // What was before is nobody's.
    fire(&master, "go/x", 0).await;
    let context = start(&master);
    fire(&master, "go/x", 1).await;
    assert_eq!(numbers(&master, "done/x", 1).await, [1]);
    stop(context).await;
    for number in 2..6 {
        fire(&master, "go/x", number).await;
        fire(&master, "other/x", number).await;
    }
    let context = start(&master);
    let done = numbers(&master, "done/x", 5).await;
    let mut sorted = done.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 3, 4, 5], "{done:?}");
    stop(context).await;
    let figures = master.state.runner_parts().reactions;
    assert!(figures.figures().events() >= 5);
    assert_eq!(figures.figures().outcomes()[1], ("failed", 0));
}

#[tokio::test]
async fn a_reaction_that_is_added_does_not_react_to_what_was_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        let text = "answer:\n  runner.event.send:\n    - args:\n      - done/NAME\n      - data: {n: {{ data['n'] }}}\n";
        std::fs::write(&path, text.replace("NAME", name)).unwrap();
        path
    };
    let (old, new, job) = (file("old"), file("new"), folder.path().join("job"));
    std::fs::write(&job, "job:\n  local.test.ping:\n    - tgt: m1\n").unwrap();
    let echo =
        "echo:\n  runner.event.send:\n    - args:\n      - done/jobs\n      - data: {n: 1}\n";
    let jobs = folder.path().join("jobs");
    std::fs::write(&jobs, echo).unwrap();
    let master = TestMaster::start(|config| {
        config.reactor.reactions = vec![reaction("go/*", &old), reaction("job/*", &job)];
        config.durable_events = vec!["*".to_owned()];
    })
    .await;
    let key = master.pki_dir.join("minions/m1");
    std::fs::write(key, saline_channel::PublicIdentity([1; 32]).to_pem()).unwrap();
    let context = start(&master);
    fire(&master, "go/x", 1).await;
    assert_eq!(numbers(&master, "done/old", 1).await, [1]);
    // The reactor has not read on since these, which nothing reacts to.
    fire(&master, "late/x", 2).await;
    let parts = master.state.runner_parts();
    parts.reactions.add(reaction("late/*", &new)).unwrap();
    fire(&master, "late/x", 3).await;
    assert_eq!(numbers(&master, "done/new", 1).await, [3]);
    // What waits for the old file of a tag does not become one of the new file, and is not lost.
    stop(context).await;
    fire(&master, "go/x", 4).await;
    let mut both = reaction("go/*", &old);
    both.files.extend(reaction("go/*", &new).files);
    let reactions = vec![both, reaction("job/*", &job)];
    parts.reactions.set(reactions.clone());
    fire(&master, "go/x", 5).await;
    let context = start(&master);
    let mut answers = numbers(&master, "done/old", 3).await;
    answers.sort_unstable();
    assert_eq!(answers, [1, 4, 5]);
    assert_eq!(numbers(&master, "done/new", 2).await, [3, 5]);
    // Publications of jobs have numbers of their own.
    let published = async |count: u64| {
        let deadline = Clock.after(Duration::from_secs(60));
        while parts.jobs.counts().published() < count {
            assert!(Clock.now() < deadline);
            tokio::task::yield_now().await;
        }
    };
    fire(&master, "job/x", 6).await;
    published(1).await;
    let mut more = reactions;
    more.push(reaction("salt/job/*/new", &jobs));
    more.push(reaction("end/*", &new));
    parts.reactions.set(more);
    fire(&master, "job/x", 7).await;
    published(2).await;
    assert_eq!(numbers(&master, "done/jobs", 1).await, [1]);
    fire(&master, "end/x", 8).await;
    assert_eq!(numbers(&master, "done/new", 3).await, [3, 5, 8]);
    stop(context).await;
    assert_eq!(numbers(&master, "done/jobs", 1).await, [1]);
}

#[tokio::test]
async fn a_reactor_without_reactions_has_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nothing.sls");
    std::fs::write(&file, "").unwrap();
    let master = TestMaster::start(|config| {
        config.reactor.reactions = vec![reaction("go/*", &file)];
    })
    .await;
    let parts = master.state.runner_parts();
    let reader = EventReader::new(&parts.jobs, &parts.durable).unwrap();
    let context = start(&master);
    let deadline = Clock.after(Duration::from_secs(60));
    for is_known in [true, false] {
        while (reader.consumers().await.unwrap() == [REACTOR]) != is_known {
            assert!(Clock.now() < deadline, "{is_known}");
            tokio::task::yield_now().await;
        }
        parts.reactions.set(Vec::new());
    }
    stop(context).await;
}

#[tokio::test]
async fn a_minions_own_tag_is_matched_unless_it_is_below_salt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.sls");
    std::fs::write(&file, "").unwrap();
    let master = TestMaster::start(|config| {
        config.reactor.reactions = vec![reaction("myco/*", &file), reaction("salt/key", &file)];
    })
    .await;
    let parts = master.state.runner_parts();
    for (tag, is_matched) in [
        ("myco/x", true),
        ("salt/minion/web1/myco/x/y", true),
        ("salt/minion/web1/salt/key", false),
        ("salt/minion/web1/other", false),
        ("salt/key", true),
        ("salt/job/20261121091409931549/new", false),
    ] {
        assert_eq!(parts.durable.is_reacted_to(tag), is_matched, "{tag}");
        let event = Event {
            tag: tag.to_owned(),
            origin: saline_messages::EventOrigin::master(),
            data: Value::Map(Vec::new()),
        };
        let matched = parts.reactions.matching(&event, None);
        assert_eq!(matched.len(), usize::from(is_matched), "{tag}");
        if let Some(matched) = matched.first() {
            assert_eq!(matched.tag, tag.trim_start_matches("salt/minion/web1/"));
        }
    }
}

#[tokio::test]
async fn files_are_found_by_globs_in_order_and_include_their_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    file(
        "b.sls",
        "{% import_yaml './known.yaml' as known %}{% if data.id in known %}b:\n  local.test.ping:\n    - tgt: {{ data.id }}\n{% endif %}",
    );
    file("a.sls", "a:\n  local.tset:\n");
    file("known.yaml", "[web1]\n");
    file(".hidden.sls", "x: y");
    let master = TestMaster::start(|config| {
        config.reactor.reactions = vec![
            reaction("*", &folder.path().join("*.sls")),
            reaction("*", &folder.path().join("absent.sls")),
        ];
    })
    .await;
    let reactions = master.state.runner_parts().reactions;
    let event = Event {
        tag: "salt/auth".to_owned(),
        origin: saline_messages::EventOrigin::master(),
        data: Value::map([("id", Value::from("web1"))]),
    };
    let planning = move || {
        let matched = reactions.matching(&event, None).into_iter();
        matched
            .map(|matched| reactions.render(matched, &event))
            .collect::<Vec<_>>()
    };
    let plans = master.context.spawn_blocking(planning).await.unwrap();
    let names: Vec<&str> = plans
        .iter()
        .map(|plan| plan.file.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(names, ["a.sls", "b.sls", "absent.sls"]);
    let error = plans[0].blocks.as_ref().unwrap_err();
    assert!(
        error.contains("a.sls:2:3: the block \"a\", local.tset: "),
        "{error}"
    );
    assert_eq!(plans[1].blocks.as_ref().unwrap().len(), 1);
    let error = plans[2].blocks.as_ref().unwrap_err();
    let absent = folder.path().join("absent.sls");
    assert_eq!(*error, format!("there is no file {}", absent.display()));
}

/// The time is printed; `TMPDIR=/dev/shm` leaves the disk's syncs out of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_becomes_a_published_job_soon() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.sls");
    let text = "echo:\n  local.test.echo:\n    - tgt: m1\n    - args: [{{ data['n'] }}]\n";
    std::fs::write(&file, text).unwrap();
    let master = TestMaster::start(|config| {
        config.reactor.reactions = vec![reaction("go/*", &file)];
    })
    .await;
    let key = master.pki_dir.join("minions/m1");
    std::fs::write(key, saline_channel::PublicIdentity([1; 32]).to_pem()).unwrap();
    let context = start(&master);
    let parts = master.state.runner_parts();
    let published = || parts.jobs.counts().published();
    let mut times = Vec::new();
    for number in 0..60 {
        let before = published();
        let began = Clock.now();
        fire(&master, "go/x", number).await;
        while published() == before {
            assert!(Clock.now() < began + Duration::from_secs(60));
            tokio::task::yield_now().await;
        }
        times.push(Clock.now() - began);
    }
    times.sort_unstable();
    println!(
        "from the event to its job: {:?} (median), {:?} (most)",
        times[30], times[59]
    );
    stop(context).await;
}

/// Runs `wheel.key.delete` of web1 for a file, as a reaction does, and returns how it ended.
async fn delete_key(runners: &Runners, request: u8) -> RunnerEnd {
    let arguments = Arguments {
        positional: Vec::new(),
        named: vec![("match".to_owned(), Value::from("web1"))],
    };
    let principal = Principal::Reaction("/srv/a.sls".to_owned());
    let call = RunnerCall {
        request_id: RequestId([request; 16]),
        kind: RunKind::Wheel,
        fun: "key.delete".to_owned(),
        arg: arguments.pack(),
        user: principal.owner(),
        timeout_ms: None,
        is_async: true,
    };
    let run = runners.begin(&principal, call, None, Vec::new()).unwrap();
    run.ended().await;
    decode(run.end().unwrap().bytes()).unwrap()
}

#[tokio::test]
async fn a_decision_about_a_key_is_made_once_though_the_master_crashes_meanwhile() {
    let master = TestMaster::start(|_| {}).await;
    let path = master.pki_dir.join("minions").join("web1");
    let key = saline_channel::PublicIdentity([1; 32]).to_pem();
    std::fs::write(&path, &key).unwrap();
    // Nothing says whether the key was deleted before the crash.
    let jobs = master.state.runner_parts().jobs;
    let noted = jobs.log_request(RequestId([1; 16]), Vec::new());
    let _ = noted.await.unwrap();
    let runners = || Runners::new(master.state.runner_parts());
    let why = delete_key(&runners(), 1).await.error.unwrap();
    assert!(
        why.starts_with("the master was started again after"),
        "{why}"
    );
    assert!(path.exists());
    assert_eq!(delete_key(&runners(), 2).await.error, None);
    assert!(!path.exists());
    std::fs::write(&path, &key).unwrap();
    assert!(delete_key(&runners(), 2).await.error.is_some());
    assert!(path.exists(), "it was accepted again");
}

#[tokio::test]
async fn a_run_that_waits_for_its_turn_delays_no_other_reaction() {
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("slow.sls");
    let text = "slow:\n  runner.event.send:\n    - args:\n      - done/x\n      - data: {n: {{ data['n'] }}}\n";
    std::fs::write(&slow, text).unwrap();
    let quick = folder.path().join("quick.sls");
    let text = "quick:\n  wheel.key.delete:\n    - match: web1\n";
    std::fs::write(&quick, text).unwrap();
    let master = TestMaster::start(|config| {
        config.reactor.reactions = vec![reaction("slow", &slow), reaction("quick", &quick)];
        config.durable_events = vec!["done/*".to_owned()];
    })
    .await;
    let path = master.pki_dir.join("minions").join("web1");
    let key = saline_channel::PublicIdentity([1; 32]).to_pem();
    std::fs::write(&path, key).unwrap();
    let mut reactor = master
        .state
        .reactor(Runners::new(master.state.runner_parts()));
    reactor.context = master.context.child();
    reactor.workers = 1;
    let context = reactor.context.clone();
    // The runs that are under way do not end.
    let runs = std::sync::Arc::clone(&reactor.runs);
    let under_way = runs.acquire_many_owned(super::RUNS as u32).await.unwrap();
    context.spawn(reactor.run());
    fire(&master, "slow", 7).await;
    fire(&master, "quick", 8).await;
    let deadline = Clock.after(Duration::from_secs(60));
    while path.exists() {
        assert!(Clock.now() < deadline);
        tokio::task::yield_now().await;
    }
    drop(under_way);
    assert_eq!(numbers(&master, "done/x", 1).await, [7]);
    stop(context).await;
}

#[tokio::test]
async fn a_loop_through_two_files_is_seen_after_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, fun: &str| {
        let path = folder.path().join(name);
        let text = format!("order:\n  local.{fun}:\n    - tgt: m1\n    - args: [1]\n");
        std::fs::write(&path, text).unwrap();
        path
    };
    let (first, second) = (file("a.sls", "test.echo"), file("b.sls", "test.arg"));
    let master = TestMaster::start(|config| {
        config.reactor.reactions = vec![reaction("go/*", &first)];
        config.durable_events = vec!["done/*".to_owned()];
    })
    .await;
    let key = master.pki_dir.join("minions/m1");
    std::fs::write(key, saline_channel::PublicIdentity([1; 32]).to_pem()).unwrap();
    let parts = master.state.runner_parts();
    let jobs_reach = async |count: u64| {
        let deadline = Clock.after(Duration::from_secs(60));
        while parts.jobs.counts().published() < count {
            assert!(Clock.now() < deadline);
            tokio::task::yield_now().await;
        }
    };
    let new = "salt/job/*/new";
    // Each of these starts knows nothing of the one before.
    let context = start(&master);
    fire(&master, "go/x", 0).await;
    jobs_reach(1).await;
    stop(context).await;
    parts.reactions.start_with(vec![reaction(new, &second)]);
    let context = start(&master);
    jobs_reach(2).await;
    stop(context).await;
    // The last event comes behind that of the second job.
    let last = folder.path().join("last.sls");
    let text = "last:\n  runner.event.send:\n    - args:\n      - done/x\n      - data: {n: 1}\n";
    std::fs::write(&last, text).unwrap();
    let reactions = vec![reaction(new, &first), reaction("end/*", &last)];
    parts.reactions.start_with(reactions);
    let mut reactor = master
        .state
        .reactor(Runners::new(master.state.runner_parts()));
    reactor.context = master.context.child();
    reactor.workers = 1;
    let context = reactor.context.clone();
    context.spawn(reactor.run());
    fire(&master, "end/x", 0).await;
    assert_eq!(numbers(&master, "done/x", 1).await, [1]);
    stop(context).await;
    assert_eq!(parts.jobs.counts().published(), 2);
}
