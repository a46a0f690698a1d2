//! The protocol versions that a master and its peers agree on.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod support;

use std::sync::Arc;

use saline_protocol::channel::{Credentials, Identity, MasterTrust, NoiseKey};
use saline_protocol::message::{
    Admission, Class, Header, KeyAction, KeyState, Kind, MinionId, MinionReply, MinionRequest,
    OperatorReply, OperatorRequest, PeerVersion, ProtocolVersions, Refusal, Role, SOFTWARE,
};
use saline_protocol::transport::Clock;

use support::{Deployment, Peer, TEST_TIMEOUT};

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
    let poll = newer.ask(MinionRequest::PendingJobs { after: None }).await;
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
    let versions = operator.order(OperatorRequest::Versions).await;
    let OperatorReply::Versions(fleet) = versions else {
        panic!("{versions:?}");
    };
    let ours = PeerVersion {
        protocol: 1,
        software: SOFTWARE.to_owned(),
    };
    assert_eq!(fleet.minions, [(MinionId::parse("newer").unwrap(), ours)]);
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
