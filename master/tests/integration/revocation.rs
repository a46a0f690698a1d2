//! What a minion loses with its key, however the key goes.

use std::path::PathBuf;
use std::sync::Arc;

use saline_channel::publication::Content;
use saline_channel::{Credentials, Identity, MasterTrust};
use saline_config::MasterConfig;
use saline_messages::{
    Admission, Jid, KeyAction, KeyEntry, KeyRequest, KeyState, MinionJobState, MinionReply,
    MinionRequest, OperatorReply, OperatorRequest, RefusedVerb, Role,
};
use saline_protocol::transport::Clock;

use crate::support::{Deployment, Peer, TEST_TIMEOUT};

fn key_file(deployment: &Deployment, folder: &str, id: &str) -> PathBuf {
    deployment.config.paths.pki_dir.join(folder).join(id)
}

/// Waits until the master refuses the session, and returns why.
async fn refusal(minion: &Peer) -> RefusedVerb {
    let deadline = Clock.after(TEST_TIMEOUT);
    loop {
        let request = MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX,
        };
        if let MinionReply::Refused(why) = minion.ask_in_ended_session(&request).await {
            return why;
        }
        assert!(Clock.now() < deadline, "the session still stands");
        Clock.pause(std::time::Duration::from_millis(20)).await;
    }
}

/// Has the operator accept a minion's key, which is not connected then, and publishes a job for it. Returns
/// the minion's credentials and the job.
async fn accepted_and_away(deployment: &Deployment, id: &str) -> (Credentials, Jid) {
    let operator = deployment.operator().await;
    let minion = deployment.minion(id).await;
    let accepted = operator.act(KeyAction::Accept, KeyState::Pending, id);
    assert_eq!(accepted.await, 1);
    let published = operator.publish_within(id, TEST_TIMEOUT).await;
    let jid = published.jid.unwrap();
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Queued);
    (minion.credentials, jid)
}

/// The same machine with another key, which an operator puts in the place of the first.
fn replace_by_hand(config: &MasterConfig, credentials: &Credentials) -> Credentials {
    let identity = Identity::generate().unwrap();
    let path = config.paths.pki_dir.join("minions").join(&credentials.id);
    std::fs::write(path, identity.public().to_pem()).unwrap();
    Credentials {
        identity: Arc::new(identity),
        ..credentials.clone()
    }
}

/// Connects a minion that the master knows.
async fn come(deployment: &Deployment, credentials: Credentials) -> Peer {
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let peer = Peer::come(deployment.network().await, credentials, &trust).await;
    assert!(peer.established.answer.is_accepted());
    peer.reconcile().await;
    peer
}

async fn state_of(operator: &Peer, jid: &Jid) -> MinionJobState {
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
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Withdrawn);
    assert_eq!(stays.pending().await, [], "it keeps its session");
}

#[tokio::test]
async fn the_group_key_is_replaced_when_its_session_ends() {
    let session = std::time::Duration::from_millis(1_500);
    let deployment = Deployment::start_with(|config| {
        config.auto_accept = true;
        config.publish_session = session;
    })
    .await;
    let minion = deployment.minion("m1").await;
    let mut listener = minion.listen().await;
    let Content::NewEpoch(first) = listener.next().await else {
        panic!("the first content is a key");
    };
    let Content::NewEpoch(second) = listener.next().await else {
        panic!("the second content is a key");
    };
    assert_eq!(second, first + 1);
}

#[tokio::test]
async fn rejecting_the_denied_key_of_an_impostor_leaves_the_minion_with_the_accepted_one() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("web1").await;
    let jid = operator.publish("web1").await.jid.unwrap();
    let impostor = deployment.minion("web1").await;
    assert_eq!(impostor.established.answer, Admission::Denied);
    let rejected = operator.act(KeyAction::Reject, KeyState::Denied, "web1");
    assert_eq!(rejected.await, 1);
    // Its session goes on, its job stays, and it may come again; the impostor may not.
    assert_eq!(minion.pending().await[0].jid, jid);
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Offered);
    come(&deployment, minion.credentials.clone()).await;
    let trust = MasterTrust::Pinned(deployment.master_keys());
    let again = Peer::come(deployment.network().await, impostor.credentials, &trust).await;
    assert_eq!(again.established.answer, Admission::Rejected);
}

/// Waits until the master tells that the keys of all minions are missing, and returns them as they can be deleted.
async fn missing(operator: &Peer) -> Vec<KeyEntry> {
    let deadline = Clock.after(TEST_TIMEOUT);
    loop {
        let list = OperatorRequest::Keys(KeyRequest::List);
        let OperatorReply::Keys(reply) = operator.order(list).await else {
            panic!("the keys were not listed");
        };
        if !reply.missing.is_empty() {
            let missing = reply.missing.into_iter().map(|id| KeyEntry {
                id,
                state: KeyState::Accepted,
                identity: KeyEntry::NO_KEY,
            });
            return missing.collect();
        }
        assert!(Clock.now() < deadline, "no keys are missing");
        Clock.pause(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn keys_that_were_all_removed_by_hand_are_revoked_by_deleting_them() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    deployment.minion("m2").await;
    let jid = operator.publish("m1").await.jid.unwrap();
    // In one step, or the watch may see that the first is gone and the second is not.
    let folder = deployment.config.paths.pki_dir.join("minions");
    std::fs::rename(&folder, folder.with_file_name("aside")).unwrap();
    let missing = missing(&operator).await;
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Offered);
    assert_eq!(operator.act_on(KeyAction::Delete, missing).await, 2);
    assert_eq!(refusal(&minion).await, RefusedVerb::KeyGone);
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Withdrawn);
}

#[tokio::test]
async fn keys_that_were_all_removed_while_no_master_ran_are_revoked_by_deleting_them() {
    let deployment = Deployment::start(false).await;
    let (_, jid) = accepted_and_away(&deployment, "m1").await;
    accepted_and_away(&deployment, "m2").await;
    let deployment = deployment
        .restart(|config| {
            for id in ["m1", "m2"] {
                std::fs::remove_file(config.paths.pki_dir.join("minions").join(id)).unwrap();
            }
        })
        .await;
    let operator = deployment.operator().await;
    let missing = missing(&operator).await;
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Queued);
    assert_eq!(operator.act_on(KeyAction::Delete, missing).await, 2);
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Withdrawn);
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
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Withdrawn);
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
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Withdrawn);
}

#[tokio::test]
async fn a_key_that_is_replaced_while_no_master_runs_does_not_inherit_the_jobs() {
    let deployment = Deployment::start(false).await;
    // One that was connected, and one that never was.
    let (away, queued) = accepted_and_away(&deployment, "away").await;
    let (there, _) = accepted_and_away(&deployment, "there").await;
    come(&deployment, there.clone()).await;
    let operator = deployment.operator().await;
    let offered = operator.publish("there").await.jid.unwrap();
    assert_eq!(state_of(&operator, &offered).await, MinionJobState::Offered);
    let mut replaced = Vec::new();
    let deployment = deployment
        .restart(|config| {
            replaced = [away, there]
                .map(|known| replace_by_hand(config, &known))
                .into();
        })
        .await;
    let operator = deployment.operator().await;
    for jid in [&queued, &offered] {
        assert_eq!(state_of(&operator, jid).await, MinionJobState::Withdrawn);
    }
    for credentials in replaced {
        assert_eq!(come(&deployment, credentials).await.pending().await, []);
    }
}

#[tokio::test]
async fn a_key_that_open_mode_replaces_does_not_inherit_the_jobs() {
    let deployment = Deployment::start(true).await;
    let deployment = deployment.restart(|config| config.open_mode = true).await;
    let operator = deployment.operator().await;
    let old = deployment.minion("m1").await;
    let jid = operator.publish("m1").await.jid.unwrap();
    let new = deployment.minion("m1").await;
    assert!(new.established.answer.is_accepted());
    assert_eq!(new.pending().await, []);
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Withdrawn);
    assert_eq!(refusal(&old).await, RefusedVerb::KeyGone);
    let jid = operator.publish("m1").await.jid.unwrap();
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Offered);
}

#[tokio::test]
async fn keys_that_are_removed_while_no_master_runs_have_their_jobs_withdrawn() {
    // As after a crash between the removal of a key and its revocation.
    for stays in [true, false] {
        let deployment = Deployment::start(false).await;
        let (_, gone) = accepted_and_away(&deployment, "gone").await;
        let mut left = None;
        if stays {
            left = Some(accepted_and_away(&deployment, "stays").await.1);
        }
        let deployment = deployment
            .restart(|config| {
                std::fs::remove_file(config.paths.pki_dir.join("minions/gone")).unwrap();
            })
            .await;
        let operator = deployment.operator().await;
        assert_eq!(state_of(&operator, &gone).await, MinionJobState::Withdrawn);
        if let Some(left) = left {
            assert_eq!(state_of(&operator, &left).await, MinionJobState::Queued);
        }
    }
}

#[tokio::test]
async fn an_id_whose_key_was_removed_and_accepted_anew_while_no_master_ran_begins_anew() {
    let deployment = Deployment::start(false).await;
    let (first, jid) = accepted_and_away(&deployment, "m1").await;
    let mut second = None;
    let deployment = deployment
        .restart(|config| {
            let path = config.paths.pki_dir.join("minions/m1");
            std::fs::remove_file(path).unwrap();
            second = Some(replace_by_hand(config, &first));
        })
        .await;
    let minion = come(&deployment, second.unwrap()).await;
    assert_eq!(minion.pending().await, []);
    let operator = deployment.operator().await;
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Withdrawn);
}

#[tokio::test]
async fn an_ordinary_restart_withdraws_nothing() {
    let deployment = Deployment::start(false).await;
    let (credentials, jid) = accepted_and_away(&deployment, "m1").await;
    let (_, other) = accepted_and_away(&deployment, "m2").await;
    let mut deployment = deployment;
    for _ in 0..2 {
        deployment = deployment.restart(|_| {}).await;
        let operator = deployment.operator().await;
        for jid in [&jid, &other] {
            assert_eq!(state_of(&operator, jid).await, MinionJobState::Queued);
        }
    }
    // Nor do folders that are not mounted.
    let away = |config: &mut MasterConfig, from: &str, to: &str| {
        let pki = &config.paths.pki_dir;
        std::fs::rename(pki.join(from), pki.join(to)).unwrap();
    };
    let deployment = deployment
        .restart(|config| away(config, "minions", "elsewhere"))
        .await;
    let operator = deployment.operator().await;
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Queued);
    let deployment = deployment
        .restart(|config| {
            std::fs::remove_dir(config.paths.pki_dir.join("minions")).unwrap();
            away(config, "elsewhere", "minions");
        })
        .await;
    let pending = come(&deployment, credentials).await.pending().await;
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].jid, jid);
}

#[tokio::test]
async fn a_key_whose_file_cannot_be_read_at_a_start_was_not_removed() {
    let deployment = Deployment::start(false).await;
    let (credentials, jid) = accepted_and_away(&deployment, "m1").await;
    let (_, other) = accepted_and_away(&deployment, "m2").await;
    let path = |config: &MasterConfig| config.paths.pki_dir.join("minions/m1");
    let whole = std::fs::read(path(&deployment.config)).unwrap();
    let deployment = deployment
        .restart(|config| std::fs::write(path(config), &whole[..40]).unwrap())
        .await;
    let operator = deployment.operator().await;
    for jid in [&jid, &other] {
        assert_eq!(state_of(&operator, jid).await, MinionJobState::Queued);
    }
    // The other half is written.
    std::fs::write(path(&deployment.config), &whole).unwrap();
    let minion = come(&deployment, credentials.clone()).await;
    assert_eq!(minion.pending().await[0].jid, jid);
    assert_eq!(names_of(&operator, "m1").await, ["m1"]);
    // It is a folder at the next start, and another key after it.
    let deployment = deployment
        .restart(|config| {
            std::fs::remove_file(path(config)).unwrap();
            std::fs::create_dir(path(config)).unwrap();
        })
        .await;
    let operator = deployment.operator().await;
    let state = state_of(&operator, &jid).await;
    assert!(state != MinionJobState::Withdrawn, "{state:?}");
    std::fs::remove_dir(path(&deployment.config)).unwrap();
    let replaced = replace_by_hand(&deployment.config, &credentials);
    let minion = come(&deployment, replaced).await;
    assert_eq!(minion.pending().await, []);
    assert_eq!(state_of(&operator, &jid).await, MinionJobState::Withdrawn);
}

/// Returns the minions that get a job.
async fn names_of(operator: &Peer, target: &str) -> Vec<String> {
    let published = operator.publish(target).await;
    let ids = published.minions.into_iter();
    ids.map(|(id, _)| id.to_string()).collect()
}

#[tokio::test]
async fn a_key_that_is_replaced_a_moment_after_a_job_was_queued_for_it_does_not_inherit_it() {
    let deployment = Deployment::start(false).await;
    let operator = deployment.operator().await;
    let folder = deployment.config.paths.pki_dir.join("minions");
    // Between two looks of the watch, again and again.
    for number in 0..20 {
        let id = format!("m{number}");
        let key = Identity::generate().unwrap().public().to_pem();
        std::fs::write(folder.join(&id), key).unwrap();
        let published = operator.publish_within(&id, TEST_TIMEOUT).await;
        let jid = published.jid.unwrap();
        let mut credentials = crate::support::credentials(Role::Minion, &id);
        credentials = replace_by_hand(&deployment.config, &credentials);
        let minion = come(&deployment, credentials).await;
        assert_eq!(minion.pending().await, []);
        assert_eq!(state_of(&operator, &jid).await, MinionJobState::Withdrawn);
    }
}
