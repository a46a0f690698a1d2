//! Who must claim a job, and what the log says of an order.

use saline_channel::PublicIdentity;
use saline_channel::noise::SplitKeys;
use saline_messages::{PeerVersion, SessionId, StartId};
use saline_protocol::transport::{Peer, Source};

use super::*;
use crate::parts::testing::TestMaster;
use crate::publisher::MAX_OWN_TOPIC;
use crate::sessions::{ListenerKind, MinionStart, NewSession, SessionState};

/// Adds the session of a present minion whose lease begins at this time.
fn lease(sessions: &Sessions, number: u8, id: &MinionId, after: MasterTime) {
    let new = NewSession {
        id: SessionId([number; 16]),
        principal: Principal::Minion(id.clone()),
        version: PeerVersion {
            protocol: 1,
            software: String::new(),
        },
        identity: PublicIdentity([number; 32]),
        listener_kind: ListenerKind::Network,
        listener: 0,
        peer: Peer::new(number.into(), Source::Process),
        proven: true,
        state: SessionState::Accepted,
    };
    let keys = SplitKeys {
        initiator: [1; 32],
        responder: [2; 32],
    };
    let session = sessions.add(new, &keys).unwrap();
    let start = MinionStart {
        start: StartId([number; 16]),
        predecessor_ended: false,
    };
    sessions.seat(&session, start);
    assert_eq!(sessions.grant_lease(&session, after).after, after);
}

#[tokio::test]
async fn a_minion_that_is_accepted_after_the_target_was_resolved_must_claim_and_may_not_begin() {
    let master = TestMaster::start(|_| {}).await;
    let order = master.state.operator_verbs().publish;
    let id = |text: &str| MinionId::parse(text).unwrap();
    let (resolved_at, created) = (1_000, 1_010);
    for (number, minion, after) in [
        (1, "known-before", 900),
        (2, "known-back", 1_005),
        (3, "other-before", 900),
        (4, "accepted-at", resolved_at),
        (5, "accepted-after", 1_005),
        (6, "accepted-later", created),
    ] {
        lease(&order.sessions, number, &id(minion), after);
    }
    let mut minions = vec![id("known-back"), id("known-before")];
    minions.extend((0..MAX_OWN_TOPIC).map(|number| id(&format!("m{number:02}"))));
    let offered: Vec<_> = minions
        .into_iter()
        .map(|id| (id, MinionJobState::Offered))
        .collect();
    let claims = order.claims(resolved_at, created, &offered);
    for (minion, must) in [
        ("known-before", false),
        // It was chosen, so it is granted the job when it asks.
        ("known-back", false),
        ("other-before", false),
        ("accepted-at", true),
        ("accepted-after", true),
    ] {
        assert_eq!(claims.include(&id(minion)), must, "{minion}");
    }
    // A job for few goes to each of them alone.
    let few = order.claims(resolved_at, created, &offered[..2]);
    assert_eq!(few, MustClaim::NOBODY);
    // What asks without being one of the minions is refused, and what it returns is not taken.
    let job = Job {
        jid: order.jobs.next_jid(),
        target: Target::glob("*"),
        fun: "test.ping".to_owned(),
        arg: saline_messages::Arguments::default().pack(),
        user: "ann".to_owned(),
        created,
        expires: MasterTime::MAX,
        claims,
    };
    let new = NewJob {
        job: sign_job(&order.identity, job.clone()),
        operator: "ann".to_owned(),
        request: saline_messages::RequestId::random().unwrap(),
        minions: offered,
        unknown: Vec::new(),
        batch: None,
        resolved: Some(resolved_at),
        metadata: None,
        returners: Vec::new(),
    };
    let published = order.jobs.publish(new).await.unwrap();
    assert!(matches!(published, CarriedOut::Now));
    let newcomer = id("accepted-after");
    assert!(!order.jobs.claim(&newcomer, &job.jid).await.unwrap());
    assert!(order.jobs.claim(&id("known-back"), &job.jid).await.unwrap());
}

#[test]
fn the_log_names_the_operator_and_what_it_calls_itself() {
    assert_eq!(
        describe_operator(&Principal::LocalRoot, "root"),
        "operator root"
    );
    assert_eq!(
        describe_operator(&Principal::MasterUser, "ann"),
        "operator root (its program names user ann)"
    );
}
