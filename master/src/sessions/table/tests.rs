mod connections;
mod model;

use super::*;
use crate::sessions::{ConnectionId, ListenerKind, MAX_UNPROVEN, MinionStart};
use saline_messages::{MustClaim, PeerVersion, StartId};
use saline_protocol::transport::{Peer, Source};

const HEARTBEAT: Duration = Duration::from_secs(15);

fn add(sessions: &Sessions, number: u16, id: &str, state: SessionState) -> Arc<Session> {
    let mut session = SessionId::default();
    session.0[..2].copy_from_slice(&number.to_be_bytes());
    let keys = SplitKeys {
        initiator: [1; 32],
        responder: [2; 32],
    };
    let principal = Principal::Minion(MinionId::parse(id).unwrap());
    let mut identity = PublicIdentity([0; 32]);
    identity.0[..id.len()].copy_from_slice(id.as_bytes());
    let version = PeerVersion {
        protocol: 1,
        software: String::new(),
    };
    let new = NewSession {
        id: session,
        principal,
        version,
        identity,
        listener_kind: ListenerKind::Network,
        listener: 0,
        peer: peer(1),
        proven: false,
        state,
    };
    sessions.add(new, &keys).unwrap()
}

/// How the presence of a minion changed.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    None,
    Arrived,
    Replaced(SessionId),
}

impl From<Heard> for Change {
    fn from(heard: Heard) -> Self {
        match heard.is_back {
            true => Self::Arrived,
            false => Self::None,
        }
    }
}

impl From<PresenceChange> for Change {
    fn from(change: PresenceChange) -> Self {
        match change {
            PresenceChange::None => Self::None,
            PresenceChange::Arrived => Self::Arrived,
            PresenceChange::Replaced { old, .. } => Self::Replaced(old.id),
        }
    }
}

/// A request of the session.
fn hear(sessions: &Sessions, session: &Arc<Session>) -> Change {
    sessions.heard(session).into()
}

fn start(number: u8, predecessor_ended: bool) -> MinionStart {
    MinionStart {
        start: StartId([number; 16]),
        predecessor_ended,
    }
}

/// A request and a complete reconciliation of the session.
fn seat(sessions: &Sessions, session: &Arc<Session>, number: u8) -> Change {
    assert_eq!(hear(sessions, session), Change::None);
    sessions.seat(session, start(number, true)).into()
}

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_minion_is_alive_for_two_heartbeats() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let session = add(&sessions, 1, "m1", SessionState::Accepted);
    assert_eq!(hear(&sessions, &session), Change::None);
    assert!(sessions.alive(&id("m1")).is_none(), "it has not reconciled");
    assert_eq!(seat(&sessions, &session, 1), Change::Arrived);
    Clock.pause(2 * HEARTBEAT).await;
    assert!(sessions.alive(&id("m1")).is_some());
    Clock.pause(Duration::from_millis(1)).await;
    assert!(sessions.alive(&id("m1")).is_none());
    assert_eq!(sessions.counted_minions(), 1, "not swept");
    assert_eq!(sessions.sweep(), [id("m1")]);
    assert_eq!(sessions.sweep(), [], "told once");
    assert_eq!((sessions.minions(), sessions.counted_minions()), (0, 0));
    // It was only stopped: the same session goes on.
    assert_eq!(hear(&sessions, &session), Change::Arrived);
    assert!(sessions.alive(&id("m1")).is_some());
    assert_eq!(hear(&sessions, &session), Change::None);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_session_is_forgotten_after_two_heartbeats_unless_it_is_used() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let unused = add(&sessions, 1, "m1", SessionState::Accepted);
    assert_eq!(seat(&sessions, &unused, 1), Change::Arrived);
    let used = add(&sessions, 2, "m1", SessionState::Accepted);
    assert_eq!(seat(&sessions, &used, 2), Change::Replaced(unused.id));
    let current = add(&sessions, 3, "m1", SessionState::Accepted);
    assert_eq!(seat(&sessions, &current, 3), Change::Replaced(used.id));
    for _ in 0..4 {
        Clock.pause(HEARTBEAT).await;
        assert_eq!(hear(&sessions, &used), Change::None);
        assert_eq!(hear(&sessions, &current), Change::None);
        sessions.sweep();
    }
    assert!(sessions.get(unused.id).is_none());
    assert_eq!(used.state(), SessionState::Replaced, "it is told why");
    assert!(sessions.get(used.id).is_some() && sessions.get(current.id).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_proves_nothing_is_bounded_and_soon_forgotten() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    for number in 0..MAX_UNPROVEN {
        assert!(sessions.has_room(ListenerKind::Network));
        let number = u16::try_from(number).unwrap();
        add(
            &sessions,
            number,
            &format!("m{number}"),
            SessionState::Accepted,
        );
    }
    assert!(!sessions.has_room(ListenerKind::Network));
    assert!(sessions.has_room(ListenerKind::Local));
    Clock.pause(UNPROVEN_FOR + Duration::from_millis(1)).await;
    assert_eq!(sessions.sweep(), []);
    assert!(sessions.has_room(ListenerKind::Network));
    assert!(sessions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_are_bounded_and_the_most_silent_is_forgotten() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 0);
    let most = u16::try_from(UNACCEPTED_BESIDE_PENDING).unwrap();
    for number in 0..most {
        let session = add(
            &sessions,
            number,
            &format!("m{number}"),
            SessionState::Unaccepted,
        );
        assert_eq!(hear(&sessions, &session), Change::None);
    }
    Clock.pause(Duration::from_secs(1)).await;
    let mut first = SessionId::default();
    sessions.heard(&sessions.get(first).unwrap());
    add(&sessions, most, "another", SessionState::Unaccepted);
    assert_eq!(sessions.len(), UNACCEPTED_BESIDE_PENDING);
    assert!(sessions.get(first).is_some(), "it spoke just now");
    first.0[..2].copy_from_slice(&most.to_be_bytes());
    assert!(sessions.get(first).is_some(), "the new one");
}

#[tokio::test(start_paused = true)]
async fn one_key_holds_few_sessions_and_the_one_that_counts_stays() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let seated = add(&sessions, 0, "m1", SessionState::Accepted);
    assert_eq!(seat(&sessions, &seated, 1), Change::Arrived);
    for number in 1..100 {
        add(&sessions, number, "m1", SessionState::Accepted);
    }
    assert_eq!(sessions.len(), PER_KEY);
    assert!(sessions.get(seated.id).is_some());
    sessions.end_minion(&id("m1"), Some(seated.identity));
    assert!(sessions.alive(&id("m1")).is_some(), "its key is accepted");
    sessions.end_minion(&id("m1"), None);
    assert_eq!(seated.state(), SessionState::KeyGone);
    sessions.accept(&seated);
    assert_eq!(seated.state(), SessionState::KeyGone, "gone is gone");
    assert!(sessions.alive(&id("m1")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_proven_nothing_goes_before_one_that_has() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let seated = add(&sessions, 0, "m1", SessionState::Accepted);
    assert_eq!(seat(&sessions, &seated, 1), Change::Arrived);
    let proven = add(&sessions, 1, "m1", SessionState::Accepted);
    assert_eq!(hear(&sessions, &proven), Change::None);
    let unproven = [2, 3, 4].map(|number| add(&sessions, number, "m1", SessionState::Accepted));
    let is_there = |session: &Arc<Session>| sessions.get(session.id).is_some();
    assert!(is_there(&seated) && is_there(&proven));
    assert_eq!(unproven.each_ref().map(is_there), [false, true, true]);
    for session in &unproven[1..] {
        hear(&sessions, session);
    }
    let new = add(&sessions, 5, "m1", SessionState::Accepted);
    assert!(is_there(&new) && is_there(&seated), "it is not locked out");
    assert!(
        !is_there(&proven),
        "the oldest goes when all have proven themselves"
    );
}

fn peer(connection: u64) -> Peer {
    Peer::new(connection, Source::Process)
}

#[tokio::test(start_paused = true)]
async fn a_minion_that_was_gone_arrives_also_with_a_new_session() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let old = add(&sessions, 1, "m1", SessionState::Accepted);
    seat(&sessions, &old, 1);
    assert_eq!(sessions.take_arrived(), [id("m1")]);
    Clock.pause(3 * HEARTBEAT).await;
    assert_eq!(sessions.sweep(), [id("m1")]);
    let new = add(&sessions, 2, "m1", SessionState::Accepted);
    seat(&sessions, &new, 2);
    assert_eq!(sessions.take_arrived(), [id("m1")]);
    let newer = add(&sessions, 3, "m1", SessionState::Accepted);
    seat(&sessions, &newer, 2);
    assert!(sessions.take_arrived().is_empty(), "it was here");
}

#[tokio::test(start_paused = true)]
async fn a_lease_covers_what_is_created_after_its_beginning_while_it_is_prolonged() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let session = add(&sessions, 1, "m1", SessionState::Accepted);
    assert_eq!(sessions.grant_lease(&session, 1_000), Lease::default());
    seat(&sessions, &session, 1);
    let first = sessions.grant_lease(&session, 1_000);
    assert!(!first.covers(1_000) && first.covers(1_001) && first.covers(31_000));
    assert!(!first.covers(31_001));
    let prolonged = sessions.grant_lease(&session, 31_000);
    assert!(prolonged.covers(1_001) && prolonged.covers(61_000));
    let renewed = sessions.grant_lease(&session, 61_001);
    assert!(!renewed.covers(61_001), "it had lapsed");
    assert!(sessions.is_offered(&id("m1"), 70_000));
    Clock.pause(2 * HEARTBEAT + Duration::from_millis(1)).await;
    assert!(sessions.alive(&id("m1")).is_none());
    assert!(sessions.is_offered(&id("m1"), 91_001), "as was promised");
    assert!(!sessions.is_offered(&id("m1"), 91_002));
}

#[tokio::test(start_paused = true)]
async fn whose_session_ended_before_its_lease_must_claim() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let old = add(&sessions, 1, "m1", SessionState::Accepted);
    seat(&sessions, &old, 1);
    sessions.grant_lease(&old, 1_000);
    let nobody = || std::iter::empty();
    assert_eq!(sessions.claims(2_000, nobody()), MustClaim::NOBODY);
    // The same process with a new session has dropped the old lease.
    let same = add(&sessions, 2, "m1", SessionState::Accepted);
    seat(&sessions, &same, 1);
    sessions.grant_lease(&same, 1_000);
    assert_eq!(sessions.claims(2_000, nobody()), MustClaim::NOBODY);
    // Another process may live beside the old one.
    let other = add(&sessions, 3, "m1", SessionState::Accepted);
    hear(&sessions, &other);
    assert!(sessions.lives_beside(&id("m1"), start(2, false)));
    assert!(!sessions.lives_beside(&id("m1"), start(2, true)));
    sessions.seat(&other, start(2, false));
    assert_eq!(
        sessions.claims(2_000, nobody()),
        MustClaim::These(vec![id("m1")])
    );
    assert_eq!(
        sessions.claims(31_001, nobody()),
        MustClaim::NOBODY,
        "it has run out"
    );
    sessions.forget_leases(31_001);
    // A connection was cut, and the job is not offered.
    sessions.grant_lease(&other, 40_000);
    sessions.note_connection(&other, 0, peer(1));
    sessions.departed(0, peer(1));
    Clock.pause(Duration::from_secs(1)).await;
    assert!(!sessions.is_offered(&id("m1"), 41_000));
    let not_offered = [id("m1")];
    let claims = sessions.claims(41_000, not_offered.iter());
    assert_eq!(claims, MustClaim::These(vec![id("m1")]));
}

#[tokio::test(start_paused = true)]
async fn when_too_many_must_claim_all_must() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    for number in 0..65 {
        let name = format!("m{number}");
        for start_number in 1..3 {
            let session = add(
                &sessions,
                number * 2 + start_number,
                &name,
                SessionState::Accepted,
            );
            hear(&sessions, &session);
            sessions.seat(&session, start(start_number as u8, false));
            sessions.grant_lease(&session, 1_000);
        }
    }
    assert_eq!(
        sessions.claims(2_000, std::iter::empty()),
        MustClaim::EverybodyOnTopic
    );
}

#[tokio::test(start_paused = true)]
async fn when_a_switch_dies_no_more_leases_are_looked_at_than_decide() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let ids: Vec<_> = (0..200).map(|number| id(&format!("m{number}"))).collect();
    for (number, id) in (1..).zip(&ids) {
        let session = add(&sessions, number, id.as_str(), SessionState::Accepted);
        seat(&sessions, &session, 1);
        sessions.grant_lease(&session, 1_000);
    }
    let mut looked_at = 0;
    let claims = sessions.claims(2_000, ids.iter().inspect(|_| looked_at += 1));
    assert_eq!((claims, looked_at), (MustClaim::EverybodyOnTopic, 65));
}

#[tokio::test(start_paused = true)]
async fn two_machines_of_one_id_are_reported_once_a_minute_and_known_for_a_while() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let note = |old: &str, new: &str| sessions.note_duplicate(&id("m1"), [old.into(), new.into()]);
    assert!(note("a", "b"));
    assert!(!note("b", "a"));
    Clock.pause(Duration::from_secs(60)).await;
    assert!(note("a", "c"));
    let known = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    assert_eq!(sessions.duplicates(), [(id("m1"), known)]);
    Clock.pause(Duration::from_secs(15 * 60)).await;
    assert_eq!(sessions.duplicates(), []);
    // They take the session from each other, each time from another port.
    for port in 0..10 {
        let old = format!("[2001:db8::1]:{port}");
        note(&old, &format!("192.0.2.7:{port}"));
        note(
            &format!("192.0.2.7:{port}"),
            &format!("[2001:db8::1]:{}", port + 1),
        );
    }
    let known = vec!["192.0.2.7:9".to_owned(), "[2001:db8::1]:10".to_owned()];
    assert_eq!(sessions.duplicates(), [(id("m1"), known)]);
    // Two machines behind one address are told apart by their ports.
    note("[2001:db8::1]:10", "[2001:db8::1]:11");
    assert_eq!(sessions.duplicates()[0].1.len(), 3);
}

fn connection(listener: usize, number: u64) -> ConnectionId {
    ConnectionId {
        listener,
        peer: peer(number),
    }
}
