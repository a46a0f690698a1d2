//! The audit file: no order without a line, over a crash of the master too.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use saline_client::messages::OrderWarning;
use saline_client::{Client, JobSpec, RunnerSpec};
use saline_config::MasterConfig;
use saline_testing::{Fleet, TEST_TIMEOUT};

/// Returns the lines of the audit file about this action.
pub(crate) fn lines_of(fleet: &Fleet, action: &str) -> Vec<String> {
    let file = fleet.path("master/var/log/saline/master-audit.log");
    let text = fs::read_to_string(file).unwrap_or_default();
    let action = format!(r#""action": "{action}""#);
    let lines = text.lines();
    lines
        .filter(|line| line.contains(&action))
        .map(ToOwned::to_owned)
        .collect()
}

/// A job that was cancelled and a run that was ended, each with its jid and the warnings of the master.
struct Ended {
    job: String,
    of_job: Vec<OrderWarning>,
    run: String,
    of_run: Vec<OrderWarning>,
}

/// Cancels a job of `m1` and ends a run, as local root, while `m1` does not answer.
fn cancel_and_end(fleet: &Fleet) -> Ended {
    fleet.minions["m1"].signal(Signal::STOP);
    let registry = saline_transports::registry();
    let schemes: Vec<&str> = registry.schemes().collect();
    let config = MasterConfig::load(&fleet.config(), &schemes)
        .unwrap()
        .config;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let ended = runtime.enable_all().build().unwrap().block_on(async {
        let client = Client::connect(&config, &registry).await.unwrap();
        let job = JobSpec::glob("m1", "test.ping").unwrap();
        let job = client.run_async(job).await.unwrap().jid.unwrap();
        let of_job = client.cancel(&job).await.unwrap();
        // It asks the minion, which does not answer.
        let run = RunnerSpec::new("doc.execution").with_timeout(Some(TEST_TIMEOUT * 10));
        let run = client.runner(run).unwrap();
        let kill = async {
            loop {
                match run.kill().await.unwrap() {
                    Some(warnings) => break warnings,
                    // It is not begun yet.
                    None => tokio::task::yield_now().await,
                }
            }
        };
        let (ended, of_run) = tokio::join!(run.end_with_jid(), kill);
        let (jid, _) = ended.unwrap();
        assert_eq!(run.kill().await.unwrap(), Some(Vec::new()));
        client.shutdown().await;
        Ended {
            job: job.to_string(),
            of_job,
            run: jid.to_string(),
            of_run,
        }
    });
    fleet.minions["m1"].signal(Signal::CONT);
    ended
}

#[test]
fn a_master_that_is_killed_has_a_line_for_every_job_in_its_store() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let publish = |_| {
        let mut command = fleet.command("saline", &["--async", "m1", "test.ping"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut commands: Vec<_> = (0..24).map(publish).collect();
    fleet.master().log.wait_for("published test.ping", 6);
    fleet.master().signal(Signal::KILL);
    // They would ask the next master again.
    for command in &mut commands {
        command.kill().unwrap();
        command.wait().unwrap();
    }
    fleet.kill_master();
    let lines = lines_of(&fleet, "publish a job");
    fleet.start_master();
    let listed = fleet.run("saline-run", &["jobs.list_jobs", "--out", "json"]);
    let listed = listed.expect(0).stdout;
    let jobs: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let jids: Vec<_> = jobs.as_object().unwrap().keys().collect();
    assert!(jids.len() >= 6, "{listed}");
    for jid in jids {
        let subject = format!(r#""subject": "job {jid}""#);
        let has_line = lines.iter().any(|line| line.contains(&subject));
        assert!(has_line, "{jid} has no line: {lines:?}");
    }
}

#[test]
fn without_room_for_a_line_root_goes_on_and_is_warned() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    // A folder in its place cannot be written.
    let file = fleet.path("master/var/log/saline/master-audit.log");
    fs::create_dir_all(&file).unwrap();
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let said = fleet.saline(&["m1", "test.ping"]).expect(0);
    assert!(
        said.stderr.contains("this order has no line"),
        "{}",
        said.stderr
    );
    let ended = cancel_and_end(&fleet);
    assert!(matches!(ended.of_job[..], [OrderWarning::NotAudited(_)]));
    assert!(matches!(ended.of_run[..], [OrderWarning::NotAudited(_)]));
    for (program, words) in [
        ("saline-key", &["-r", "m1", "-y", "--include-all"][..]),
        ("saline-run", &["manage.up"]),
        ("saline-key", &["--rotate-aes-key"]),
    ] {
        let said = fleet.run(program, words).expect(0).stderr;
        let warnings = said.matches("this order has no line").count();
        assert_eq!(warnings, 1, "{program}: {said}");
    }
    let log = &fleet.master().log;
    log.wait_for("orders of operators and of local users are refused", 1);
}

#[test]
fn what_ends_a_job_or_a_run_has_a_line_and_that_of_a_key_names_its_fingerprint() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let ended = cancel_and_end(&fleet);
    assert_eq!((ended.of_job, ended.of_run), (Vec::new(), Vec::new()));
    let cancelled = lines_of(&fleet, "cancel a job").join("\n");
    assert!(cancelled.contains(&ended.job), "{cancelled}");
    let subject = format!(r#""subject": "run {}""#, ended.run);
    let runs = lines_of(&fleet, "end its own run");
    assert!(runs.len() == 1 && runs[0].contains(&subject), "{runs:?}");
    assert!(
        runs[0].contains(r#""function": "doc.execution""#),
        "{runs:?}"
    );

    let fingers = fleet.run("saline-key", &["-f", "m1", "--out", "json"]);
    let fingers = fingers.expect(0).stdout;
    let found: serde_json::Value = serde_json::from_str(&fingers).unwrap();
    let fingerprint = found["minions"]["m1"].as_str().unwrap();
    fleet
        .run("saline-key", &["-r", "m1", "-y", "--include-all"])
        .expect(0);
    let subject = format!(r#""subject": "reject, minion m1, fingerprint {fingerprint}""#);
    let acts = lines_of(&fleet, "change keys").join("\n");
    assert!(acts.contains(&subject), "{acts}");
}
