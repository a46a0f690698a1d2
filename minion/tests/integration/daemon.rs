//! The daemon, with a real master over the in-memory transport.

use std::time::Duration;

use crate::deployment::{Deployment, wait};
use saline_data::Value;
use saline_messages::{Jid, KeyAction, KeyState, MinionJobState, RETCODE_INTERRUPTED};
use saline_protocol::transport::Clock;
use saline_targeting::{MAX_GRAINS, Target, TargetKind};

/// Whether a minion runs the job.
async fn runs(deployment: &Deployment, jid: &Jid) -> bool {
    let client = deployment.client().await;
    let page = client.job_states(jid, None).await.unwrap();
    client.shutdown().await;
    let mut states = page.states.iter();
    states.any(|(_, state)| *state == MinionJobState::Running)
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_run_and_what_fails_says_why() {
    let deployment = Deployment::new().await;
    let minion = deployment.minion("m1").await;
    assert_eq!(
        deployment.ask("m1", "test.ping", &[]).await.value,
        Value::Bool(true)
    );
    let failed = deployment
        .ask("m1", "cmd.run", &["echo no; exit 3".into()])
        .await;
    assert_eq!((failed.retcode, failed.success), (3, false));
    assert_eq!(failed.value, Value::from("no"));
    let running = deployment.ask("m1", "saltutil.running", &[]).await;
    let Value::List(jobs) = running.value else {
        panic!("a list");
    };
    assert_eq!(jobs[0].get("fun"), Some(&Value::from("saltutil.running")));
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_sleeps_run_side_by_side() {
    let deployment = Deployment::new().await;
    let minion = deployment.minion("m1").await;
    let began = Clock.now();
    let mut jids = Vec::new();
    for _ in 0..100 {
        jids.push(
            deployment
                .publish("m1", "test.sleep", &[Value::Int(2)])
                .await,
        );
    }
    for jid in &jids {
        assert!(deployment.stored(jid).await.success);
    }
    let took = Clock.now() - began;
    assert!(
        took < Duration::from_secs(60),
        "{took:?} for what takes 200 s in a row"
    );
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_return_comes_whole_and_one_above_the_limit_as_an_error() {
    let mut deployment = Deployment::without_master();
    deployment.config.max_message_size = 4 * 1024 * 1024;
    deployment.start_master().await;
    let minion = deployment.minion("m1").await;
    let zeros = |n: usize| Value::from(format!("head -c {n} /dev/zero | tr '\\0' x"));
    let whole = deployment.ask("m1", "cmd.run", &[zeros(3_000_000)]).await;
    assert_eq!(whole.value.as_str().map(str::len), Some(3_000_000));
    let above = deployment.ask("m1", "cmd.run", &[zeros(5_000_000)]).await;
    let said = above.value.as_str().unwrap();
    assert!(
        said.contains("5000000 bytes is above the limit of"),
        "{said}"
    );
    assert!(!above.success);
    // Both streams fit, their sum does not.
    let line = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2";
    let above = deployment.ask("m1", "cmd.run_all", &[line.into()]).await;
    let said = above.value.as_str().unwrap();
    let path = said.split("is stored, as MessagePack, in ").nth(1).unwrap();
    assert!(std::fs::metadata(path).unwrap().len() > 6_000_000);
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_minion_waits_until_it_is_accepted_and_a_rejected_one_comes_back() {
    let mut deployment = Deployment::without_master();
    deployment.config.auto_accept = false;
    deployment.start_master().await;
    let minion = deployment.start(deployment.minion_config("m1"));
    minion.wait_for("waiting for its key").await;
    deployment
        .key("m1", KeyState::Pending, KeyAction::Accept)
        .await;
    minion.wait_for("connected, ").await;
    deployment.wait_until_it_answers("m1").await;
    deployment
        .key("m1", KeyState::Accepted, KeyAction::Reject)
        .await;
    minion.wait_for("its id or its key is rejected").await;
    deployment
        .key("m1", KeyState::Rejected, KeyAction::Delete)
        .await;
    minion.wait_for("waiting for its key").await;
    deployment
        .key("m1", KeyState::Pending, KeyAction::Accept)
        .await;
    deployment.wait_until_it_answers("m1").await;
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_machine_under_the_same_id_is_denied_and_stays_alive() {
    let deployment = Deployment::new().await;
    let minion = deployment.minion("m1").await;
    let mut config = deployment.minion_config("m1");
    config.paths = saline_config::Paths::minion().under(&deployment.root.path().join("other"));
    let other = deployment.start(config);
    other.wait_for("another key is known under its id").await;
    assert!(deployment.ask("m1", "test.ping", &[]).await.success);
    other.stop().await;
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_return_survives_a_restart_of_the_master() {
    let mut deployment = Deployment::new().await;
    let minion = deployment.minion("m1").await;
    let jid = deployment
        .publish("m1", "test.sleep", &[Value::Int(2)])
        .await;
    wait("the job to run", async || runs(&deployment, &jid).await).await;
    deployment.stop_master().await;
    wait("the return to lie in the spool", async || {
        minion.minion.unacknowledged() == 1
    })
    .await;
    deployment.start_master().await;
    assert!(deployment.stored(&jid).await.success);
    deployment.wait_until_it_answers("m1").await;
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_with_another_key_is_refused_until_the_operator_says_otherwise() {
    let mut deployment = Deployment::new().await;
    let minion = deployment.minion("m1").await;
    let pinned = minion.config.master_identity();
    let trusted = std::fs::read(&pinned).unwrap();
    deployment.stop_master().await;
    std::fs::remove_dir_all(&deployment.config.paths.pki_dir).unwrap();
    deployment.start_master().await;
    minion.wait_for("refusing a master with another key").await;
    assert_eq!(std::fs::read(&pinned).unwrap(), trusted);
    std::fs::remove_file(&pinned).unwrap();
    deployment.wait_until_it_answers("m1").await;
    assert_ne!(std::fs::read(&pinned).unwrap(), trusted);
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_contact_believes_only_the_finger_that_was_given() {
    let deployment = Deployment::new().await;
    let mut config = deployment.minion_config("m1");
    config.master_finger = Some("00".repeat(32));
    let minion = deployment.start(config);
    minion.wait_for("refusing a master with another key").await;
    let mut config = minion.stop().await;
    assert!(!config.master_identity().exists());
    let public = deployment.config.paths.pki_dir.join("identity.pub");
    let keys = saline_channel::MasterKeys::read(&public).unwrap();
    config.master_finger = keys.map(|keys| keys.identity.fingerprint());
    let minion = deployment.start(config);
    deployment.wait_until_it_answers("m1").await;
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minion_that_stops_answers_for_what_it_interrupts_and_stays_away() {
    let deployment = Deployment::new().await;
    let minion = deployment.minion("m1").await;
    let short = deployment
        .publish("m1", "test.sleep", &[Value::Int(1)])
        .await;
    let long = deployment
        .publish("m1", "cmd.run", &["sleep 600".into()])
        .await;
    wait("both to run", async || runs(&deployment, &long).await).await;
    minion.stop().await;
    assert!(deployment.stored(&short).await.success);
    let interrupted = deployment.stored(&long).await;
    assert_eq!(
        (interrupted.retcode, interrupted.success),
        (RETCODE_INTERRUPTED, false)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_instance_is_refused() {
    let deployment = Deployment::new().await;
    let minion = deployment.minion("m1").await;
    let modules = saline_minion::modules::Modules::built_in();
    let second = saline_minion::Minion::new(minion.config.clone(), &deployment.registry, modules);
    let said = second.unwrap_err().to_string();
    assert!(said.contains("another instance runs already"), "{said}");
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_key_rotates_the_group_key_and_the_others_notice_nothing() {
    let deployment = Deployment::new().await;
    let (one, two) = (deployment.minion("m1").await, deployment.minion("m2").await);
    deployment
        .key("m2", KeyState::Accepted, KeyAction::Reject)
        .await;
    two.wait_for("its id or its key is rejected").await;
    for _ in 0..3 {
        assert!(deployment.ask("m1", "test.ping", &[]).await.success);
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grains_that_grow_above_what_the_master_takes_are_not_known_any_more() {
    let deployment = Deployment::new().await;
    let mut config = deployment.minion_config("m1");
    config.grains = vec![("role".to_owned(), Value::from("web"))];
    let minion = deployment.start(config);
    let client = deployment.client().await;
    let target = || {
        let target = Target {
            kind: TargetKind::Grain,
            expression: "role:web".to_owned(),
        };
        target.compile().unwrap()
    };
    let is_known = async |known: bool| {
        wait("its grains", async || {
            let matched = client.match_target(target(), false).await.unwrap();
            matched.minions.len() == usize::from(known)
                && matched.without_grains.is_empty() == known
        })
        .await;
    };
    is_known(true).await;
    let mut config = minion.stop().await;
    let large = Value::from("x".repeat(MAX_GRAINS));
    config.grains.push(("large".to_owned(), large));
    let minion = deployment.start(config);
    is_known(false).await;
    deployment.wait_until_it_answers("m1").await;
    let mut config = minion.stop().await;
    config.grains.pop();
    let minion = deployment.start(config);
    is_known(true).await;
    minion.stop().await;
    client.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minion_whose_master_is_gone_goes_at_once_where_it_is_told() {
    let mut deployment = Deployment::new().await;
    let minion = deployment.minion("m1").await;
    deployment.stop_master().await;
    minion.wait_for(" is down").await;
    deployment.config.ret_port += 1;
    deployment.start_master().await;
    let began = Clock.now();
    let moved = deployment.minion_config("m1");
    minion.minion.reload(&moved, &deployment.registry).unwrap();
    minion.wait_for("connected, ").await;
    deployment.wait_until_it_answers("m1").await;
    // Its session would be given up after thirty seconds without an answer.
    let took = Clock.now() - began;
    assert!(took < Duration::from_secs(15), "{took:?}");
    minion.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minion_that_is_told_to_move_to_a_stranger_stays_and_says_both() {
    let deployment = Deployment::new().await;
    let minion = deployment.minion("m1").await;
    let mut stranger = Deployment::without_master();
    stranger.registry = deployment.registry.clone();
    stranger.config.ret_port += 1;
    stranger.start_master().await;
    let mut elsewhere = deployment.minion_config("m1");
    elsewhere.master = stranger.minion_config("m1").master;
    minion
        .minion
        .reload(&elsewhere, &deployment.registry)
        .unwrap();
    minion
        .wait_for("elsewhere: refusing a master with another key")
        .await;
    let state = minion.minion.connection_state();
    assert!(state.starts_with("connected, session "), "{state}");
    assert_eq!(
        deployment.ask("m1", "test.ping", &[]).await.value,
        Value::Bool(true)
    );
    minion.stop().await;
    stranger.stop_master().await;
}
