//! The client's session with the master: lost sessions, absent masters.

#[cfg(test)]
mod support;

use std::time::Duration;

use saline_client::{Client, ClientError, JobSpec};
use saline_messages::{Admission, Jid, OperatorReply, OperatorRequest, Published, RefusedVerb};
use saline_protocol::transport::Clock;
use support::{Act, TestMaster};

fn ping() -> JobSpec {
    JobSpec::glob("*", "test.ping").expect("a glob")
}

fn published() -> OperatorReply {
    OperatorReply::Published(Published {
        jid: Some(Jid::parse("20261121091409931549").expect("a jid")),
        expires: 0,
        minions: vec![],
        unknown: vec![],
        without_grains: vec![],
        without_pillar: vec![],
        batch: None,
        warnings: Vec::new(),
    })
}

/// Publishes once over a master that acts so; says how many sessions it took.
async fn publish_over(acts: Vec<Act>) -> usize {
    let times = acts.len();
    let master = TestMaster::new(acts);
    let _serving = master.serve().await;
    let client = Client::connect(&master.config, &master.registry)
        .await
        .expect("a master that answers");
    let published = client.run_async(ping()).await;
    assert!(published.expect("a publication").jid.is_some());
    let asked = master.asked();
    assert_eq!(asked.len(), times);
    assert!(
        asked.windows(2).all(|pair| pair[0] == pair[1]),
        "the same request with the same id, however often: {asked:?}"
    );
    client.shutdown().await;
    master.sessions()
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_answer_is_lost_is_asked_again_as_the_same() {
    assert_eq!(publish_over(vec![Act::Answer(published())]).await, 1);
    let lost = vec![Act::Lose, Act::Lose, Act::Answer(published())];
    assert_eq!(publish_over(lost).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_master_that_is_asked_for_too_much_is_asked_again_after_the_time_it_names() {
    let begun = Clock.now();
    // Longer than a master that is away is waited for.
    let busy = Act::Answer(OperatorReply::busy(Duration::from_secs(100)));
    let acts = vec![busy.clone(), busy, Act::Answer(published())];
    assert_eq!(publish_over(acts).await, 1);
    assert!(begun.elapsed() >= Duration::from_secs(200));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_refused_or_ended_is_made_anew() {
    for act in [
        Act::Forget,
        Act::Answer(OperatorReply::Refused(RefusedVerb::Replaced)),
        Act::Answer(OperatorReply::Refused(RefusedVerb::ShuttingDown)),
    ] {
        assert_eq!(publish_over(vec![act, Act::Answer(published())]).await, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_has_new_keys_after_an_hour() {
    let master = TestMaster::new([(); 3].map(|()| Act::Answer(OperatorReply::LastSeen(vec![]))));
    let _serving = master.serve().await;
    let client = Client::connect(&master.config, &master.registry)
        .await
        .unwrap();
    for (pause, sessions) in [(0, 1), (3_590, 1), (10, 2)] {
        Clock.pause(Duration::from_secs(pause)).await;
        client.last_seen(vec![]).await.unwrap();
        assert_eq!(master.sessions(), sessions, "{pause} s later");
    }
    client.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_master_that_restarts_is_found_again_also_with_another_root_key() {
    let master = TestMaster::new([
        Act::Answer(OperatorReply::LastSeen(vec![])),
        Act::Answer(OperatorReply::LastSeen(vec![])),
    ]);
    let serving = master.serve().await;
    let client = Client::connect(&master.config, &master.registry)
        .await
        .unwrap();
    client.last_seen(vec![]).await.unwrap();
    serving.die().await;
    master.write_root_key();
    let (_serving, seen) = tokio::join!(master.serve(), client.last_seen(vec![]));
    seen.unwrap();
    assert_eq!(master.sessions(), 2);
    client.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_master_that_stays_away_is_given_up() {
    let master = TestMaster::new([]);
    let serving = master.serve().await;
    let client = Client::connect(&master.config, &master.registry)
        .await
        .unwrap();
    serving.die().await;
    let error = client.last_seen(vec![]).await.unwrap_err();
    assert!(matches!(error, ClientError::MasterGone { .. }), "{error}");
    client.shutdown().await;
    let error = client.last_seen(vec![]).await.unwrap_err();
    assert!(matches!(error, ClientError::Closed), "{error}");
}

#[tokio::test(start_paused = true)]
async fn who_cannot_connect_is_told_why_in_one_line() {
    let master = TestMaster::new([]);
    let connect = async || {
        let error = Client::connect(&master.config, &master.registry)
            .await
            .unwrap_err();
        let line = error.to_string();
        assert_eq!(line.lines().count(), 1);
        (error.is_master_down(), line)
    };
    let (down, line) = connect().await;
    assert!(down && line.contains("is saline-master running?"), "{line}");

    let serving = master.serve().await;
    master.says(Admission::Denied);
    let (down, line) = connect().await;
    assert!(!down && line.contains("(denied)"), "{line}");
    serving.die().await;

    let identity = master.config.paths.pki_dir.join("identity.pub");
    let root_key = master.config.root_key();
    std::fs::remove_file(&root_key).unwrap();
    let (down, line) = connect().await;
    assert!(down && line.contains(".root_key does not exist"), "{line}");
    std::fs::write(&root_key, "nonsense").unwrap();
    let (down, line) = connect().await;
    assert!(!down && line.contains(".root_key"), "{line}");

    master.write_root_key();
    let other = saline_channel::Identity::generate().unwrap();
    std::fs::write(&identity, other.public().to_pem()).unwrap();
    let _serving = master.serve().await;
    let (down, line) = connect().await;
    assert!(
        !down && line.contains("is not the one whose key is"),
        "{line}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_master_cannot_do_is_an_error_of_its_kind() {
    let jid = Jid::parse("20261121091409931549").unwrap();
    let master = TestMaster::new([
        Act::Answer(OperatorReply::NoSuchJob),
        Act::Answer(OperatorReply::Failed("the disk is full".to_owned())),
        Act::Answer(OperatorReply::BadTarget("no".to_owned())),
        Act::Answer(OperatorReply::LastSeen(vec![])),
    ]);
    let _serving = master.serve().await;
    let client = Client::connect(&master.config, &master.registry)
        .await
        .unwrap();
    let error = client.job_returns(&jid, 0).await.unwrap_err();
    assert!(matches!(error, ClientError::NoSuchJob(_)), "{error}");
    let error = client.last_seen(vec![]).await.unwrap_err();
    assert!(matches!(error, ClientError::Failed(_)), "{error}");
    let error = client.run_async(ping()).await.unwrap_err();
    assert!(matches!(error, ClientError::BadTarget(_)), "{error}");
    let error = client.run_async(ping()).await.unwrap_err();
    assert!(matches!(error, ClientError::WrongAnswer(_)), "{error}");
    assert!(JobSpec::glob("[", "test.ping").is_err());
    assert_eq!(master.asked().len(), 4);
    assert!(matches!(master.asked()[1], OperatorRequest::LastSeen(_)));
    client.shutdown().await;
}
