//! What strangers, and whoever listens on the path, can do with handshakes: nothing that keeps others out.

use bytes::Bytes;
use saline_channel::noise::Resumption;
use saline_channel::{Credentials, MasterTrust, NoiseKey};
use saline_messages::{
    Admission, Class, Header, KeyAction, KeyRequest, KeyState, Kind, MinionRequest, OperatorReply,
    OperatorRequest, Refusal, RefusedVerb, Role,
};
use saline_protocol::transport::Clock;

use crate::support::{Deployment, Peer, TEST_TIMEOUT, credentials, initiator_keys, now};

/// The first message of a peer that knows the master, begun then.
fn resume(deployment: &Deployment, credentials: &Credentials, attempted: u64) -> Bytes {
    let noise = deployment.master_keys().noise.unwrap();
    let (_, body) = Resumption::begin(initiator_keys(credentials, attempted), &noise).unwrap();
    Header::bare(Kind::Resume, Class::Resume).with_body(&body)
}

/// Sends a message, and returns the kind and the body of the answer.
async fn send(peer: &dyn saline_protocol::transport::Client, message: Bytes) -> (Kind, Vec<u8>) {
    let deadline = Clock.after(TEST_TIMEOUT);
    let reply = peer.request(message, deadline).await.unwrap();
    let (header, body) = Header::decode(&reply).unwrap();
    (header.kind, body.to_vec())
}

#[tokio::test]
async fn a_flood_of_resumes_by_made_up_peers_locks_nobody_out() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let stranger = deployment.network().await;
    for role in [Role::Operator, Role::Caller] {
        let made_up = credentials(role, "mallory");
        let captured = resume(&deployment, &made_up, now());
        for _ in 0..1_100 {
            let (kind, _) = send(&*stranger, captured.clone()).await;
            // It is told that it is rejected, until its source has had what it may have.
            assert!(matches!(kind, Kind::ResumeReply | Kind::Busy), "{kind:?}");
        }
    }
    deployment.operator().await;
    deployment.minion("m2").await;
    let trust = MasterTrust::Pinned(minion.established.master);
    let again = Peer::come(deployment.network().await, minion.credentials, &trust).await;
    assert!(again.established.answer.is_accepted());
}

#[tokio::test]
async fn a_captured_resume_is_recognised_and_takes_nobodys_place() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let captured = resume(&deployment, &minion.credentials, now());
    let (kind, _) = send(&*minion.client, captured.clone()).await;
    assert_eq!(kind, Kind::ResumeReply);
    for _ in 0..100 {
        let answer = send(&*minion.client, captured.clone()).await;
        assert_eq!(answer, (Kind::Refused, vec![Refusal::Replayed as u8]));
    }
    // The session that stood before still stands.
    assert_eq!(minion.pending().await, []);
}

#[tokio::test]
async fn a_machine_whose_clock_was_set_back_comes_back_by_a_first_contact() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let ahead = now() + 86_400_000_000_000;
    let (kind, _) = send(
        &*minion.client,
        resume(&deployment, &minion.credentials, ahead),
    )
    .await;
    assert_eq!(kind, Kind::ResumeReply);
    let again = resume(&deployment, &minion.credentials, now());
    assert_eq!(send(&*minion.client, again).await.0, Kind::Refused);
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let back = Peer::come(deployment.network().await, minion.credentials, &trust).await;
    assert!(back.established.answer.is_accepted());
}

#[tokio::test]
async fn one_key_does_not_take_the_places_of_all_others() {
    let deployment = Deployment::start(true).await;
    let greedy = deployment.minion("greedy").await;
    let begun = now();
    for number in 0..1_500 {
        let message = resume(&deployment, &greedy.credentials, begun + number);
        send(&*greedy.client, message).await;
    }
    let minion = deployment.minion("m1").await;
    let trust = MasterTrust::Pinned(minion.established.master);
    let again = Peer::come(deployment.network().await, minion.credentials, &trust).await;
    assert!(again.established.answer.is_accepted());
    assert_eq!(greedy.pending().await, [], "its own session stands as well");
}

#[tokio::test]
async fn an_operator_whose_key_is_removed_gives_no_further_order() {
    let deployment = Deployment::start(true).await;
    let alice = credentials(Role::Operator, "alice");
    let file = deployment.config.paths.pki_dir.join("operators/alice");
    std::fs::write(&file, alice.identity.public().to_pem()).unwrap();
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let alice = Peer::come(deployment.network().await, alice, &trust).await;
    let list = || OperatorRequest::Keys(KeyRequest::List);
    assert!(matches!(alice.order(list()).await, OperatorReply::Keys(_)));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(
        alice.order(list()).await,
        OperatorReply::Refused(RefusedVerb::KeyGone)
    );
}

#[tokio::test]
async fn a_refused_peer_holds_no_session() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    deployment.minion("m1").await;
    assert_eq!(
        operator
            .act(KeyAction::Reject, KeyState::Accepted, "m1")
            .await,
        1
    );
    let mut keys = deployment.master_keys();
    keys.noise = None;
    let trust = MasterTrust::Pinned(keys);
    let refused = Peer::come(
        deployment.network().await,
        credentials(Role::Minion, "m1"),
        &trust,
    )
    .await;
    assert_eq!(refused.established.answer, Admission::Rejected);
    let asked = refused
        .try_ask(&MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX,
        })
        .await;
    assert!(asked.is_err(), "{asked:?}");
}

#[tokio::test]
async fn a_noise_key_that_its_minion_has_replaced_is_refused_also_after_a_restart() {
    let deployment = Deployment::start(true).await;
    let old = credentials(Role::Minion, "m1");
    let new = Credentials {
        noise: NoiseKey::generate().unwrap(),
        ..old.clone()
    };
    assert!(new.noise.issued() > old.noise.issued());
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let comes = async |deployment: &Deployment, with: &Credentials| {
        let peer = Peer::come(deployment.network().await, with.clone(), &trust).await;
        if peer.established.answer.is_accepted() {
            peer.reconcile().await;
        }
        peer.established.answer
    };
    assert!(comes(&deployment, &old).await.is_accepted());
    assert!(
        comes(&deployment, &old).await.is_accepted(),
        "as often as it likes"
    );
    assert!(comes(&deployment, &new).await.is_accepted());
    assert_eq!(comes(&deployment, &old).await, Admission::OldNoiseKey);
    let of_caller = |credentials: &Credentials| Credentials {
        role: Role::Caller,
        ..credentials.clone()
    };
    let called = async |credentials: &Credentials| {
        let credentials = of_caller(credentials);
        let peer = Peer::come(deployment.network().await, credentials, &trust).await;
        peer.established.answer
    };
    assert_eq!(called(&old).await, Admission::OldNoiseKey);
    assert!(called(&new).await.is_accepted());
    let deployment = deployment.restart(|_| {}).await;
    assert_eq!(comes(&deployment, &old).await, Admission::OldNoiseKey);
    assert!(comes(&deployment, &new).await.is_accepted());
}
