//! The walk of a job through the minion, with a master that says what a test wants.

mod script;

use std::time::Duration;

use saline_protocol::channel::Identity;
use saline_protocol::channel::publication::sign_job;
use saline_protocol::message::{MinionReply, MinionRequest, ReturnVerdict, Value};
use saline_protocol::target::Target;
use saline_protocol::transport::Clock;
use script::{NOW, Stage, job};

#[tokio::test]
async fn it_announces_itself_once_and_says_goodbye() {
    let stage = Stage::new().await;
    let minion = stage.play(stage.config()).await;
    let starts = |request: &MinionRequest| matches!(request, MinionRequest::FireEvent { tag, .. } if tag == "start");
    let fired = |script: &script::Script| script.said().iter().filter(|r| starts(r)).count();
    stage.script.wait("the start", |s| fired(s) == 1).await;
    stage.script.forget_session();
    stage
        .script
        .wait("a new session", |s| s.sessions() == 2)
        .await;
    let jid = stage.script.sign(job(1, "test.ping", &[]));
    stage.script.set_pending(vec![jid]);
    minion.stop().await;
    assert_eq!(fired(&stage.script), 1);
    assert_eq!(stage.script.said().last(), Some(&MinionRequest::Goodbye));
}

#[tokio::test]
async fn a_job_that_comes_on_every_way_runs_once() {
    let stage = Stage::new().await;
    let minion = stage.play(stage.config()).await;
    let script = &stage.script;
    let ping = script.sign(job(1, "test.ping", &[]));
    script.to_all(ping.clone(), true).await;
    script.to_one("m1", ping.clone()).await;
    script.set_pending(vec![ping.clone()]);
    // A gap: what was lost is asked for, and the same job is in the answer.
    script
        .to_all(script.sign(job(2, "test.ping", &[])), false)
        .await;
    script.wait_for_returns(1).await;
    script.forget_session();
    script.wait("a new session", |s| s.sessions() == 2).await;
    script
        .wait("a second question", |s| {
            let asked = s.said().into_iter();
            asked.filter(|r| *r == MinionRequest::PendingJobs).count() >= 2
        })
        .await;
    script
        .to_all(script.sign(job(3, "test.ping", &[])), true)
        .await;
    let returns = script.wait_for_returns(2).await;
    let jids: Vec<&str> = returns.iter().map(|r| r.jid.as_str()).collect();
    assert_eq!(jids, ["20261121000000000001", "20261121000000000003"]);
    minion.stop().await;

    // Also after a restart.
    let minion = stage.play(stage.config()).await;
    script.to_all(ping, true).await;
    script
        .to_all(script.sign(job(4, "test.ping", &[])), true)
        .await;
    let returns = script.wait_for_returns(3).await;
    assert_eq!(returns[2].jid.as_str(), "20261121000000000004");
    assert_eq!(returns.len(), 3);
    minion.stop().await;
}

#[tokio::test]
async fn what_was_lost_on_the_way_is_asked_for() {
    let stage = Stage::new().await;
    let minion = stage.play(stage.config()).await;
    let script = &stage.script;
    let lost = script.sign(job(1, "test.echo", &["lost".into()]));
    script.set_pending(vec![lost.clone()]);
    // Nothing comes after it: only a heartbeat tells.
    script.to_all(lost, false).await;
    let returns = script.wait_for_returns(1).await;
    assert_eq!(returns[0].payload.unpack().unwrap(), Value::from("lost"));
    minion.stop().await;
}

#[tokio::test]
async fn what_is_for_others_is_declined_only_where_it_was_offered() {
    let stage = Stage::new().await;
    let minion = stage.play(stage.config()).await;
    let script = &stage.script;
    let for_others = |number| {
        let mut job = job(number, "test.ping", &[]);
        job.target = Target::glob("m2");
        script.sign(job)
    };
    script.to_all(for_others(1), true).await;
    script.to_one("m1", for_others(2)).await;
    script
        .to_one("m1", script.sign(job(3, "test.ping", &[])))
        .await;
    script.wait_for_returns(1).await;
    script
        .wait("a word", |s| {
            let mut said = s.said().into_iter();
            said.any(|r| matches!(r, MinionRequest::Declined { .. }))
        })
        .await;
    let declined: Vec<_> = script
        .said()
        .into_iter()
        .filter_map(|request| match request {
            MinionRequest::Declined { jid } => Some(jid.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(declined, ["20261121000000000002"]);
    minion.stop().await;
}

#[tokio::test]
async fn what_the_master_did_not_sign_or_is_too_late_does_not_run() {
    let stage = Stage::new().await;
    let minion = stage.play(stage.config()).await;
    let script = &stage.script;
    let stranger = Identity::generate().unwrap();
    script
        .to_all(sign_job(&stranger, job(1, "test.ping", &[])), true)
        .await;
    let mut late = job(2, "test.ping", &[]);
    late.expires = NOW - 1;
    script.to_all(script.sign(late), true).await;
    let forged = sign_job(&stranger, job(3, "test.ping", &[]));
    script.set_pending(vec![forged, script.sign(job(4, "test.ping", &[]))]);
    script
        .to_all(script.sign(job(5, "test.ping", &[])), false)
        .await;
    script
        .to_all(script.sign(job(6, "test.ping", &[])), true)
        .await;
    let mut returns = script.wait_for_returns(2).await;
    returns.sort_by(|a, b| a.jid.cmp(&b.jid));
    let jids: Vec<&str> = returns.iter().map(|r| r.jid.as_str()).collect();
    assert_eq!(jids, ["20261121000000000004", "20261121000000000006"]);
    minion.stop().await;
}

#[tokio::test]
async fn a_return_is_sent_until_a_verdict_comes() {
    let stage = Stage::new().await;
    let minion = stage.play(stage.config()).await;
    let script = &stage.script;
    for verdict in [
        ReturnVerdict::Stored,
        ReturnVerdict::Duplicate,
        ReturnVerdict::UnknownJob,
        ReturnVerdict::NotOffered,
    ] {
        script.answer_return(MinionReply::Busy { after_ms: 1 });
        script.answer_return(MinionReply::Verdict(verdict));
        let sent = script.returns().len();
        let number = sent as u64 + 1;
        script
            .to_all(script.sign(job(number, "test.ping", &[])), true)
            .await;
        script.wait_for_returns(sent + 2).await;
        script
            .wait("an empty spool", |_| minion.minion.unacknowledged() == 0)
            .await;
    }
    assert_eq!(script.returns().len(), 8);
    minion.stop().await;
}

#[tokio::test]
async fn a_return_that_the_master_cannot_read_becomes_one_that_says_so() {
    let stage = Stage::new().await;
    let minion = stage.play(stage.config()).await;
    let script = &stage.script;
    script.answer_return(MinionReply::Done);
    let long = Value::from("x".repeat(10_000));
    script
        .to_all(script.sign(job(1, "test.echo", &[long])), true)
        .await;
    let returns = script.wait_for_returns(2).await;
    assert!(returns[0].success && !returns[1].success);
    let said = returns[1].payload.unpack().unwrap();
    assert_eq!(
        said,
        Value::from("ERROR: the master could not read the return")
    );
    minion.stop().await;
}

#[tokio::test]
async fn long_runs_are_announced_and_short_ones_are_not() {
    let stage = Stage::new().await;
    let minion = stage.play(stage.config()).await;
    let script = &stage.script;
    script
        .to_all(script.sign(job(1, "test.ping", &[])), true)
        .await;
    script
        .to_all(
            script.sign(job(2, "test.sleep", &[Value::Float(0.8)])),
            true,
        )
        .await;
    script.wait_for_returns(2).await;
    let started: Vec<_> = script
        .said()
        .into_iter()
        .filter_map(|request| match request {
            MinionRequest::Started { jid } => Some(jid.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(started, ["20261121000000000002"]);
    minion.stop().await;
}

#[tokio::test]
async fn more_than_may_run_at_once_wait_for_their_turn() {
    let stage = Stage::new().await;
    let mut config = stage.config();
    config.process_count_max = 1;
    let minion = stage.play(config).await;
    let script = &stage.script;
    let began = Clock.now();
    for number in 1..=4 {
        let sleep = job(number, "test.sleep", &[Value::Float(0.1)]);
        script.to_all(script.sign(sleep), true).await;
    }
    script.wait_for_returns(4).await;
    assert!(Clock.now() - began >= Duration::from_millis(400));
    minion.stop().await;
}

#[tokio::test]
async fn a_full_disk_is_answered_and_the_minion_lives() {
    let stage = Stage::new().await;
    let config = stage.config();
    std::fs::create_dir_all(&config.paths.cache_dir).unwrap();
    std::os::unix::fs::symlink("/dev/full", config.spool()).unwrap();
    let minion = stage.play(config).await;
    let script = &stage.script;
    for number in 1..=2 {
        script
            .to_all(script.sign(job(number, "test.ping", &[])), true)
            .await;
    }
    for returned in script.wait_for_returns(2).await {
        let said = returned.payload.unpack().unwrap();
        let said = said.as_str().unwrap().to_owned();
        assert!(
            said.contains("not run: the minion could not note it in its spool"),
            "{said}"
        );
        assert!(!returned.success);
    }
    minion.stop().await;
}
