//! The protocol versions that a master and its peers agree on.

use std::sync::Arc;

use saline_channel::{ChannelError, Credentials, Identity, MasterTrust, NoiseKey, establish};
use saline_data::Value;
use saline_messages::{
    Admission, Class, Header, Introduction, KeyAction, KeyState, Kind, MinionReply, MinionRequest,
    ProtocolVersions, Refusal, Role, SOFTWARE, encode,
};
use saline_protocol::transport::{Client, Clock};

use crate::support::on_path::{Change, OnPath, Place};
use crate::support::runner::value;
use crate::support::{Deployment, Peer, TEST_TIMEOUT, credentials};

#[tokio::test]
async fn the_highest_common_version_is_spoken_and_none_is_refused_with_what_to_do() {
    let deployment = Deployment::start(true).await;
    let come = async |id: &str, lowest, highest, trust: MasterTrust| {
        let credentials = Credentials {
            role: Role::Minion,
            id: id.into(),
            identity: Arc::new(Identity::generate().unwrap()),
            noise: NoiseKey::generate().unwrap(),
            versions: ProtocolVersions { lowest, highest },
        };
        Peer::come(deployment.network().await, credentials, &trust).await
    };
    let first_use = || MasterTrust::FirstUse { finger: None };
    // A successor that still speaks what this master speaks.
    let newer = come("newer", 1, 2, first_use()).await;
    let Admission::Accepted(welcome) = &newer.established.answer else {
        panic!("{:?}", newer.established.answer);
    };
    assert_eq!(welcome.master.protocol, 1);
    assert_eq!(welcome.master.software, SOFTWARE);
    newer.reconcile().await;
    let poll = newer
        .ask(MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX,
        })
        .await;
    assert!(matches!(poll, MinionReply::Jobs(_)), "{poll:?}");
    // One that does not, at its first contact and when it knows the master.
    let known = || MasterTrust::Pinned(deployment.master_keys());
    for trust in [first_use(), known()] {
        let newest = come("newest", 2, 3, trust).await;
        let refused = Admission::NoCommonVersion {
            versions: ProtocolVersions::OURS,
            software: SOFTWARE.to_owned(),
        };
        assert_eq!(newest.established.answer, refused);
        let poll = newest.try_ask(&MinionRequest::Poll).await;
        assert!(poll.is_err(), "it has no session: {poll:?}");
    }
    // Its key was not noted: there is no minion of that name.
    let operator = deployment.operator().await;
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "newest");
    assert_eq!(deleted.await, 0);
    let versions = value(&operator, "manage.versions", &[]).await;
    let newer = Value::map([("newer", Value::from(SOFTWARE))]);
    assert_eq!(versions.get("Up to date"), Some(&newer));
}

#[tokio::test]
async fn an_envelope_of_another_version_is_refused_as_that() {
    let deployment = Deployment::start(true).await;
    let client = deployment.network().await;
    let mut message = Header::bare(Kind::First, Class::First)
        .with_body(&[1; 40])
        .to_vec();
    message[0] = 9;
    let reply = client
        .request(message.into(), Clock.after(TEST_TIMEOUT))
        .await;
    let reply = reply.unwrap();
    let (header, body) = Header::decode(&reply).unwrap();
    assert_eq!(header.kind, Kind::Refused);
    assert_eq!(Refusal::from_body(body), Refusal::Version);
}

const BOTH: ProtocolVersions = ProtocolVersions {
    lowest: 1,
    highest: 2,
};

/// Returns the place of the highest version in the encoded introduction of `id`.
fn place_of_highest(id: &str) -> usize {
    let introduction = |highest| {
        encode(&Introduction {
            id: id.into(),
            identity: [0; 32],
            // As long as that of any key that is issued today.
            issued: 1_700_000_000_000_000_000,
            signature: vec![0; 64],
            versions: ProtocolVersions { lowest: 1, highest },
            software: SOFTWARE.into(),
            extensions: Vec::new(),
        })
    };
    let (one, two) = (introduction(1), introduction(2));
    one.iter().zip(&two).position(|(a, b)| a != b).unwrap()
}

/// Both sides speak 1 and 2. What is said of versions is encrypted, yet a place that is known can be changed: somebody
/// on the path who turns a 2 into a 1 there gets no session of version 1 made.
#[tokio::test]
async fn nobody_on_the_path_lowers_the_version() {
    let deployment = Deployment::start_with_versions(true, BOTH).await;
    let known = deployment.master_keys();
    // Noise puts 32 bytes of an ephemeral key before its payloads, and 48 of a static key that the other
    // side does not know; a `Resume` begins with 32 of a MAC and the role.
    let minion = place_of_highest("m1");
    // After the version of the session: the software with its length, no extensions, and the tag.
    let end_of_welcome = 1 + (1 + SOFTWARE.len()) + 1 + 16;
    let first_use = MasterTrust::FirstUse { finger: None };
    let pinned = MasterTrust::Pinned(known.clone());
    for (kind, at, trust) in [
        (
            Kind::FirstReply,
            Place::Body(80 + place_of_highest("")),
            &first_use,
        ),
        (Kind::FirstFinish, Place::Body(48 + minion), &first_use),
        (Kind::Record, Place::End(end_of_welcome), &first_use),
        (Kind::Resume, Place::Body(33 + 80 + minion), &pinned),
        (Kind::ResumeReply, Place::End(end_of_welcome), &pinned),
    ] {
        let mut credentials = credentials(Role::Minion, "m1");
        credentials.versions = BOTH;
        let on_path = OnPath::new(deployment.network().await);
        let come = async || {
            let client: &dyn Client = &*on_path;
            establish(client, &credentials, trust, Clock.after(TEST_TIMEOUT)).await
        };
        // As it is, the session is of version 2.
        let agreed = |answer: &Admission| match answer {
            Admission::Accepted(welcome) => welcome.master.protocol,
            other => panic!("{other:?}"),
        };
        assert_eq!(agreed(&come().await.unwrap().answer), 2, "{kind:?}");
        *on_path.change.lock().unwrap() = Some(Change {
            kind,
            at,
            mask: 1 ^ 2,
            master_noise: known.noise.unwrap(),
        });
        match come().await {
            // The master did not read it, so the minion showed itself in full.
            Ok(made) if kind == Kind::Resume => assert_eq!(agreed(&made.answer), 2),
            Ok(made) => panic!("{kind:?}: {:?}", made.answer),
            Err(ChannelError::Refused(Refusal::Handshake)) => {
                assert_eq!(kind, Kind::FirstFinish);
            }
            Err(ChannelError::Noise(_) | ChannelError::Forged) => {}
            Err(other) => panic!("{kind:?}: {other}"),
        }
        assert!(on_path.change.lock().unwrap().is_none(), "{kind:?} passed");
        // Nor does a refusal in the clear: the next session is of version 2.
        assert_eq!(agreed(&come().await.unwrap().answer), 2, "{kind:?}");
        let operator = deployment.operator().await;
        let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "m1");
        assert_eq!(deleted.await, 1);
    }
}
