//! Runs of a master without gates.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use saline_config::MasterConfig;
use saline_functions::{Secret, function};
use saline_messages::{Arguments, RunnerRequest};
use saline_protocol::transport::Clock;

use super::super::run_table::MAX_ENDED;
use super::*;
use crate::authorize::Principal;
use crate::parts::testing::TestMaster;

struct Running {
    master: TestMaster,
    runners: Runners,
}

impl Running {
    async fn start() -> Self {
        let master = TestMaster::start(|_| {}).await;
        let runners = Runners::new(master.state.runner_parts());
        Self { master, runners }
    }

    fn call(fun: &str, positional: &[&str]) -> RunnerCall {
        RunnerCall {
            request_id: RequestId::random().unwrap(),
            kind: RunKind::Runner,
            fun: fun.to_owned(),
            arg: Arguments {
                positional: positional.iter().map(|text| Value::from(*text)).collect(),
                named: Vec::new(),
            }
            .pack(),
            user: "ann".to_owned(),
            timeout_ms: None,
            is_async: false,
        }
    }

    /// Runs a function to its end.
    async fn run(&self, call: RunnerCall) -> (Arc<RunState>, RunnerEnd) {
        let run = self
            .runners
            .begin(&Principal::LocalRoot, call, None, Vec::new())
            .unwrap();
        let mut phase = run.phase.subscribe();
        let has_ended = |phase: &Phase| matches!(phase, Phase::Ended(_));
        phase.wait_for(has_ended).await.unwrap();
        let end = decode(run.end().unwrap().bytes()).unwrap();
        (run, end)
    }
}

#[tokio::test]
async fn whoever_asks_again_for_an_end_that_is_gone_does_not_begin_the_run_anew() {
    let running = Running::start().await;
    let call = Running::call("config.get", &["timeout"]);
    let (run, _) = running.run(call.clone()).await;
    let again = running
        .runners
        .begin(&Principal::LocalRoot, call.clone(), None, Vec::new())
        .unwrap();
    assert_eq!(again.jid, run.jid);
    while running.runners.find("root", call.request_id).is_some() {
        running.run(Running::call("config.get", &["timeout"])).await;
    }
    let refused = running
        .runners
        .begin(&Principal::LocalRoot, call, None, Vec::new())
        .unwrap_err();
    let expected = format!("runner {} has ended, and its return is kept", run.jid);
    assert!(refused.starts_with(&expected), "{refused}");
}

#[tokio::test]
async fn a_run_that_has_ended_has_its_return_before_that_is_on_the_disk() {
    let running = Running::start().await;
    let (run, _) = running
        .run(Running::call("config.get", &["x", "mine"]))
        .await;
    store(&running.runners.parts, &run).await.unwrap();
    let jid = run.jid.as_str();
    for (fun, shown) in [
        ("jobs.lookup_jid", Value::from("mine")),
        ("jobs.exit_success", Value::Bool(true)),
    ] {
        let (_, end) = running.run(Running::call(fun, &[jid])).await;
        assert_eq!(end.notes, Vec::<String>::new(), "{fun}");
        let Value::Map(entries) = end.value().unwrap() else {
            panic!("{fun}: {end:?}");
        };
        assert_eq!(entries[0].1, shown, "{fun}");
    }
}

#[tokio::test]
async fn the_options_of_a_master_that_read_its_files_again_are_those_in_force() {
    let running = Running::start().await;
    let mut config = MasterConfig::default();
    config.timeout = Duration::from_secs(77);
    config.options = Value::map([("timeout", Value::Int(77))]);
    running.master.state.reload(&config);
    let (_, end) = running.run(Running::call("config.get", &["timeout"])).await;
    assert_eq!(end.value().unwrap(), Value::Int(77));
    let settings = running.runners.parts.settings.now();
    assert_eq!(settings.timeout, config.timeout);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_in_one_line() {
    let running = Running::start().await;
    for (fun, positional, told) in [
        (
            "manage.status",
            &["*"][..],
            "status() takes 0 positional arguments but 1 was given",
        ),
        (
            "jobs.lookup_jid",
            &[],
            "lookup_jid() missing 1 required positional argument: 'jid'",
        ),
        (
            "jobs.kill",
            &["123"],
            "kill() expects a jid of twenty digits as 'jid', not \"123\"",
        ),
        (
            "jobs.list_jobs",
            &["x"],
            "list_jobs() expects a mapping such as '{key: value}' as 'search_metadata', not \"x\"",
        ),
        (
            "cache.grains",
            &["*", "colour"],
            "grains() expects one of glob, list, ",
        ),
    ] {
        let call = Running::call(fun, positional);
        let begun = running
            .runners
            .begin(&Principal::LocalRoot, call.clone(), None, Vec::new());
        let error = match begun {
            Err(why) => why,
            Ok(_) => running.run(call).await.1.error.unwrap(),
        };
        let expected = format!("Passed invalid arguments to {fun}: {told}");
        assert!(error.starts_with(&expected), "{error}");
        let advice = format!(" (saline-run -d {fun} explains them)");
        assert!(error.ends_with(&advice), "{error}");
    }
}

const SECRET: &str = "correct-horse-battery";

/// Opens a vault.
#[function]
async fn open(_: &Run, name: String, password: Secret<String>) -> bool {
    name == "v" && password.reveal() == SECRET
}

/// Panics with its secret.
#[function]
async fn fail(_: &Run, password: Secret<String>) -> bool {
    panic!("{}", password.reveal())
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

#[tokio::test]
async fn a_secret_reaches_the_function_and_neither_the_table_of_runs_nor_the_audit_file_nor_events()
{
    let running = Running::start().await;
    let mut verb = running.master.state.operator_verbs().runners;
    let mut functions = MasterFunctions::built_in();
    functions.runners = functions.runners.with("vault", [&OPEN, &FAIL]);
    verb.runners.functions = Arc::new(functions);
    let run = async |fun: &str, positional: &[&str], named: &[(&str, &str)]| {
        let mut call = Running::call(fun, positional);
        call.is_async = true;
        let mut arguments = call.arg.unpack().unwrap();
        let named = named.iter();
        arguments.named = named
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
            .collect();
        call.arg = arguments.pack();
        let request_id = call.request_id;
        let reply = verb.carry_out(&Principal::LocalRoot, RunnerRequest::Run(call));
        let reply = reply.await.unwrap();
        (verb.runners.find("root", request_id), reply)
    };
    // What is searched for would be found.
    let plain = "battery-horse-correct";
    for (positional, named) in [
        (&[plain, SECRET][..], &[][..]),
        (&["v"], &[("password", SECRET)]),
        (&["v", SECRET], &[]),
    ] {
        let (state, _) = run("vault.open", positional, named).await;
        let state = state.unwrap();
        let mut phase = state.phase.subscribe();
        let has_ended = |phase: &Phase| matches!(phase, Phase::Ended(_));
        phase.wait_for(has_ended).await.unwrap();
        let end: RunnerEnd = decode(state.end().unwrap().bytes()).unwrap();
        let opened = positional[0] == "v";
        assert_eq!(end.value().unwrap(), Value::Bool(opened), "{end:?}");
        // What events and lists of runs show.
        assert!(!has(state.arg.as_packed().as_bytes(), SECRET));
    }
    // Neither the name nor the number of arguments has to be right.
    for (fun, positional, named) in [
        ("vault.open", &["v"][..], &[("pasword", SECRET)][..]),
        ("vault.open", &["v", SECRET, SECRET], &[]),
    ] {
        let (_, reply) = run(fun, positional, named).await;
        let shown = format!("{reply:?}");
        assert!(
            shown.contains("Refused") && !shown.contains(SECRET),
            "{shown}"
        );
    }
    let (_, reply) = run("vault.fail", &[SECRET], &[]).await;
    assert!(!format!("{reply:?}").contains(SECRET));
    let lines = running.runners.parts.audit.tail(10).await.unwrap();
    let digest = |line: &String| line.split("sha256:").nth(1).unwrap()[..64].to_owned();
    let digests: BTreeSet<String> = lines.iter().map(digest).collect();
    // The digests of equal arguments differ, so that nobody can try values.
    assert_eq!((lines.len(), digests.len()), (6, 6), "{lines:?}");
    let found = |text: &str| -> Vec<PathBuf> {
        let all = files(running.master.root()).into_iter();
        all.filter(|path| has(&std::fs::read(path).unwrap(), text))
            .collect()
    };
    assert!(!found(plain).is_empty());
    assert_eq!(found(SECRET), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_test_forgets_no_grains() {
    let running = Running::start().await;
    let mut call = Running::call("cache.clear_all", &[]);
    call.arg = Arguments {
        positional: Vec::new(),
        named: vec![("test".to_owned(), Value::Bool(true))],
    }
    .pack();
    let (_, end) = running.run(call).await;
    assert_eq!(end.value().unwrap(), Value::List(Vec::new()));
    let (_, end) = running.run(Running::call("cache.clear_all", &[])).await;
    assert_eq!(end.value().unwrap(), Value::Bool(true));
}

#[tokio::test]
async fn the_end_of_a_run_goes_from_memory_when_there_are_too_many() {
    let running = Running::start().await;
    let mut ended = Vec::new();
    for _ in 0..=MAX_ENDED {
        let (run, _) = running.run(Running::call("config.get", &["timeout"])).await;
        ended.push(Arc::downgrade(&run));
    }
    // The tasks of the runs let go of them soon after they have ended.
    let deadline = Clock.after(Duration::from_secs(60));
    while ended[0].upgrade().is_some() {
        assert!(Clock.now() < deadline, "its end is in memory");
        tokio::task::yield_now().await;
    }
    assert!(ended[1].upgrade().is_some(), "it can be read");
}
