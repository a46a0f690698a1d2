//! What a heartbeat that is under way tells a minion whose key was deleted meanwhile.

use saline_channel::PublicIdentity;
use saline_channel::noise::SplitKeys;
use saline_messages::{ExpiryAck, PeerVersion, SessionId};
use saline_protocol::transport::{Peer, Source};

use super::*;
use crate::authorize::Principal;
use crate::parts::testing::TestMaster;
use crate::sessions::{ListenerKind, NewSession};

#[tokio::test]
async fn a_deleted_minion_is_not_handed_the_new_group_key() {
    let master = TestMaster::start(|_| {}).await;
    let verbs = master.state.minion_verbs();
    let id = MinionId::parse("m1").unwrap();
    let new = NewSession {
        id: SessionId([1; 16]),
        principal: Principal::Minion(id.clone()),
        version: PeerVersion {
            protocol: 1,
            software: String::new(),
        },
        identity: PublicIdentity([1; 32]),
        listener_kind: ListenerKind::Network,
        listener: 0,
        peer: Peer::new(1, Source::Process),
        proven: true,
        state: SessionState::Accepted,
    };
    let keys = SplitKeys {
        initiator: [1; 32],
        responder: [2; 32],
    };
    let session = verbs.sessions.add(new, &keys).unwrap();
    let group_key = async || {
        let said = Heartbeat {
            running: Vec::new(),
            waiting: 0,
            epoch: 0,
            heartbeats_noted: 0,
            expiry: ExpiryAck::default(),
        };
        verbs.heartbeat(&session, &id, said).await.unwrap().group
    };
    assert!(
        group_key().await.is_some(),
        "of an epoch that it does not know"
    );
    // The request was opened before the key was deleted, and is carried out now.
    verbs.sessions.end_minion(&id, None);
    verbs.publisher.rotate().await;
    assert_eq!(group_key().await, None);
}
