//! The pillar of a minion, with a master whose replies a test prescribes.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_messages::{Arguments, Job, MinionRequest, Return};
use saline_protocol::transport::Clock;

use crate::scripted_master::{Fixture, ScriptedMaster, job};

fn pillar(role: &str) -> Value {
    Value::map([
        ("role", Value::from(role)),
        ("password", Value::from("hunter2")),
    ])
}

/// Returns a job that returns the role in the pillar that the minion holds.
fn role(number: u64) -> Job {
    let arguments = Arguments {
        positional: vec![Value::from("role")],
        named: vec![("unmask".to_owned(), Value::Bool(true))],
    };
    Job {
        arg: arguments.pack(),
        ..job(number, "pillar.get", &[])
    }
}

fn fire(number: u64, tag: &str) -> Job {
    job(number, "event.fire", &[Value::Map(Vec::new()), tag.into()])
}

/// Has the minion run a job, and returns its return, which is the one with this number, counted from 1.
async fn run(master: &ScriptedMaster, job: Job, returns: usize) -> Return {
    master.to_all(master.sign(job), true).await;
    master.wait_for_returns(returns).await.remove(returns - 1)
}

/// Returns how many events of the minion that end with `tag` the master has taken, with this `complete`.
fn completed(master: &ScriptedMaster, complete: bool) -> usize {
    let data = Packed::pack(&Value::map([("complete", Value::Bool(complete))]));
    let events = master.said().into_iter().flat_map(|request| match request {
        MinionRequest::FireEvents(sent) => sent.events,
        _ => Vec::new(),
    });
    events
        .filter(|event| event.tag == "minion_pillar_refresh_complete" && event.data == data)
        .count()
}

async fn asked(master: &ScriptedMaster, count: usize) {
    let what = format!("{count} questions for the pillar");
    master
        .wait(&what, |master| master.pillars_asked().len() >= count)
        .await;
}

#[tokio::test]
async fn it_asks_in_each_session_and_when_grains_or_an_event_say_so() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    master.set(|state| state.pillar = pillar("web"));
    let minion = fixture.start(fixture.config()).await;
    asked(master, 1).await;
    let first = run(master, role(1), 1).await;
    assert_eq!(first.payload, Packed::pack(&"web".into()));
    assert_eq!(master.pillars_asked()[0], None);

    // The function may have asked too, if it was quicker than the answer.
    let so_far = master.pillars_asked().len();
    master.set(|state| state.pillar = pillar("db"));
    run(master, job(2, "saltutil.refresh_grains", &[]), 2).await;
    asked(master, so_far + 1).await;
    assert!(master.pillars_asked()[so_far].is_some());

    master.set(|state| state.pillar = pillar("cache"));
    run(master, fire(3, "pillar_refresh"), 3).await;
    master
        .wait("the end of the refresh", |s| completed(s, true) == 1)
        .await;
    let third = run(master, role(4), 4).await;
    assert_eq!(third.payload, Packed::pack(&"cache".into()));

    let so_far = master.pillars_asked().len();
    master.forget_session();
    asked(master, so_far + 1).await;
    assert_eq!(completed(master, true), 1, "nobody asked for this one");
    minion.stop().await;
}

#[tokio::test]
async fn it_asks_again_after_a_refusal_though_nothing_says_so() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    master.set(|state| {
        state.pillar = pillar("web");
        state.refuses_pillars = true;
    });
    let minion = fixture.start(fixture.config()).await;
    let refused = |master: &ScriptedMaster| {
        let mut refused = 0;
        master.set(|state| refused = state.pillars_refused);
        refused
    };
    master
        .wait("two refusals", |master| refused(master) >= 2)
        .await;
    master.set(|state| state.refuses_pillars = false);
    asked(master, 1).await;
    minion.stop().await;
}

#[tokio::test]
async fn errors_keep_the_last_pillar_and_are_told() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    master.set(|state| state.pillar = pillar("web"));
    let minion = fixture.start(fixture.config()).await;
    asked(master, 1).await;
    run(master, role(1), 1).await;
    master.set(|state| {
        state.pillar = Value::Null;
        state.pillar_errors = vec!["web.sls:1:1: no".to_owned()];
    });
    let refused = run(master, job(2, "saltutil.refresh_pillar", &[]), 2).await;
    assert_eq!(refused.retcode, 1);
    master
        .wait("the end of the refresh", |s| completed(s, false) == 1)
        .await;
    let kept = run(master, role(3), 3).await;
    assert_eq!(kept.payload, Packed::pack(&"web".into()));
    minion.stop().await;
}

#[tokio::test]
async fn a_master_without_time_for_pillars_delays_no_job_and_no_end() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    master.set(|state| {
        state.pillar = pillar("web");
        state.is_busy_with_pillars = true;
    });
    let minion = fixture.start(fixture.config()).await;
    let ping = run(master, job(1, "test.ping", &[]), 1).await;
    assert_eq!(ping.retcode, 0);
    // This one needs it, and waits.
    master.to_all(master.sign(role(2)), true).await;
    let ping = run(master, job(3, "test.ping", &[]), 2).await;
    assert_eq!(ping.jid.as_str(), "20261121000000000003");
    master.set(|state| state.is_busy_with_pillars = false);
    let returns = master.wait_for_returns(3).await;
    assert_eq!(returns[2].payload, Packed::pack(&"web".into()));
    master.set(|state| state.is_busy_with_pillars = true);
    run(master, fire(4, "pillar_refresh"), 4).await;
    let began = Clock.now();
    minion.stop().await;
    assert!(Clock.now() - began < Duration::from_secs(20));
}

#[tokio::test]
async fn the_pillar_is_kept_in_a_file_where_the_configuration_says_so() {
    let fixture = Fixture::new().await;
    let master = &fixture.master;
    master.set(|state| state.pillar = pillar("web"));
    let mut config = fixture.config();
    config.pillar_cache = true;
    let path = config.cached_pillar();
    let minion = fixture.start(config.clone()).await;
    master
        .wait("the file of the pillar", |_| path.exists())
        .await;
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    minion.stop().await;

    // The next start uses it before the master has sent one.
    master.set(|state| state.is_busy_with_pillars = true);
    let minion = fixture.start(config.clone()).await;
    let kept = run(master, role(1), 1).await;
    assert_eq!(kept.payload, Packed::pack(&"web".into()));
    minion.stop().await;

    config.pillar_cache = false;
    let minion = fixture.start(config).await;
    assert!(!path.exists(), "what was kept is removed");
    minion.stop().await;
}
