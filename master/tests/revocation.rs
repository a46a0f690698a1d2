//! What a minion loses with its key, however the key goes.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod support;

use std::path::PathBuf;

use saline_protocol::channel::publication::Content;
use saline_protocol::channel::{Identity, MasterTrust};
use saline_protocol::message::{
    KeyAction, KeyState, MinionReply, MinionRequest, OfferState, OperatorReply, OperatorRequest,
    RefusedVerb,
};
use saline_protocol::transport::Clock;

use support::{Deployment, Peer, TEST_TIMEOUT};

fn key_file(deployment: &Deployment, folder: &str, id: &str) -> PathBuf {
    deployment.config.paths.pki_dir.join(folder).join(id)
}

/// Waits until the master refuses the session, and returns why.
async fn refusal(minion: &Peer) -> RefusedVerb {
    let deadline = Clock.after(TEST_TIMEOUT);
    loop {
        match minion.ask(MinionRequest::PendingJobs { after: None }).await {
            MinionReply::Refused(why) => return why,
            _ => assert!(Clock.now() < deadline, "the session still stands"),
        }
        Clock.pause(std::time::Duration::from_millis(20)).await;
    }
}

async fn state_of(operator: &Peer, jid: &saline_protocol::message::Jid) -> OfferState {
    let request = OperatorRequest::JobStates {
        jid: jid.clone(),
        after: None,
    };
    match operator.order(request).await {
        OperatorReply::States(page) => page.states[0].1,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_key_that_is_removed_by_hand_ends_its_session_and_rotates() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let gone = deployment.minion("gone").await;
    let stays = deployment.minion("stays").await;
    let mut listener = stays.listen().await;
    let jid = operator.publish("gone").await.jid.unwrap();
    std::fs::rename(
        key_file(&deployment, "minions", "gone"),
        key_file(&deployment, "minions_rejected", "gone"),
    )
    .unwrap();
    assert_eq!(refusal(&gone).await, RefusedVerb::KeyGone);
    assert!(matches!(listener.next().await, Content::NewEpoch(_)));
    assert_eq!(state_of(&operator, &jid).await, OfferState::Withdrawn);
    assert_eq!(stays.pending().await, [], "it keeps its session");
}

#[tokio::test]
async fn a_key_that_is_replaced_by_hand_does_not_inherit_the_jobs() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let old = deployment.minion("m1").await;
    let jid = operator.publish("m1").await.jid.unwrap();
    let mut credentials = old.credentials.clone();
    credentials.identity = std::sync::Arc::new(Identity::generate().unwrap());
    let pem = credentials.identity.public().to_pem();
    // Written in place: the folder does not change.
    std::fs::write(key_file(&deployment, "minions", "m1"), pem).unwrap();
    let trust = MasterTrust::Pinned(deployment.master_keys());
    assert_eq!(refusal(&old).await, RefusedVerb::KeyGone);
    let new = Peer::come(deployment.network().await, credentials, &trust).await;
    new.reconcile().await;
    assert_eq!(new.pending().await, []);
    assert_eq!(state_of(&operator, &jid).await, OfferState::Withdrawn);
}

#[tokio::test]
async fn a_new_key_under_the_id_of_a_deleted_one_does_not_inherit_the_jobs() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    deployment.minion("m1").await;
    let jid = operator.publish("m1").await.jid.unwrap();
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "m1");
    assert_eq!(deleted.await, 1);
    let new = deployment.minion("m1").await;
    assert_eq!(new.pending().await, []);
    assert_eq!(state_of(&operator, &jid).await, OfferState::Withdrawn);
}
