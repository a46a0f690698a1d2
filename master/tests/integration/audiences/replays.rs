//! Every captured message, sent again: on the same link, on a new one, and after a restart of the master.

use std::sync::Arc;

use bytes::Bytes;
use saline_channel::MasterTrust;
use saline_master::Master;
use saline_messages::{Header, Kind, MinionRequest, Refusal, Role};
use saline_protocol::transport::{Client, Clock};

use super::verbs;
use crate::support::on_path::OnPath;
use crate::support::{Deployment, Peer, TEST_TIMEOUT, credentials};

/// Sends the captured messages again, and checks that each is refused.
async fn replay(client: &dyn Client, captured: &[Bytes], record: Refusal) {
    for message in captured {
        let sent = Header::decode(message).unwrap().0.kind;
        let deadline = Clock.after(TEST_TIMEOUT);
        let reply = client.request(message.clone(), deadline).await.unwrap();
        let (header, body) = Header::decode(&reply).unwrap();
        let why = (header.kind == Kind::Refused).then(|| Refusal::from_body(body));
        match sent {
            // It asks for a new handshake, which only its sender can finish.
            Kind::First => assert_eq!(header.kind, Kind::FirstReply),
            Kind::FirstFinish => assert_eq!(why, Some(Refusal::UnknownSession)),
            Kind::Resume if record == Refusal::Replayed => {
                assert_eq!(why, Some(Refusal::Replayed));
            }
            // A master that has just started may answer, once: only the sender can use the session.
            Kind::Resume => assert!(
                header.kind == Kind::ResumeReply || why == Some(Refusal::Replayed),
                "{header:?}"
            ),
            Kind::Record => assert_eq!(why, Some(record), "{header:?}"),
            other => panic!("a minion sent {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_was_captured_has_no_second_effect() {
    let mut deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let tapped = OnPath::new(deployment.network().await);
    let minion = credentials(Role::Minion, "m1");
    // A first contact, and then a resume; in each session every verb but the last, which ends it.
    let mut captured = Vec::new();
    for trust in [
        MasterTrust::FirstUse { finger: None },
        MasterTrust::Pinned(deployment.master_keys()),
    ] {
        let client = Arc::clone(&tapped) as Arc<dyn Client>;
        let mut peer = Peer::come(client, minion.clone(), &trust).await;
        // The same start of the minion, so that it is no duplicate.
        peer.start = verbs::START;
        peer.reconcile().await;
        let jid = operator.publish("m1").await.jid.unwrap();
        for verb in verbs::of_minions(&jid) {
            if !matches!(verb, MinionRequest::Goodbye(_)) {
                peer.ask(verb).await;
            }
        }
        captured = std::mem::take(&mut *tapped.captured.lock().unwrap());
        replay(&*tapped.client, &captured, Refusal::Replayed).await;
    }
    assert_eq!(Header::decode(&captured[0]).unwrap().0.kind, Kind::Resume);
    replay(&*deployment.network().await, &captured, Refusal::Replayed).await;
    deployment.master.shutdown(TEST_TIMEOUT).await;
    deployment.master = Master::start(deployment.config.clone(), &deployment.registry)
        .await
        .unwrap();
    let fresh = deployment.network().await;
    replay(&*fresh, &captured, Refusal::UnknownSession).await;
}
