use super::*;

const HEARTBEAT: Duration = Duration::from_secs(15);

fn add(sessions: &Sessions, number: u16, id: &str, state: SessionState) -> Arc<Session> {
    let mut session = SessionId::default();
    session.0[..2].copy_from_slice(&number.to_be_bytes());
    let keys = SplitKeys {
        initiator: [1; 32],
        responder: [2; 32],
    };
    let principal = Principal::Minion(MinionId::parse(id).unwrap());
    let identity = PublicIdentity([0; 32]);
    let version = PeerVersion {
        protocol: 1,
        software: String::new(),
    };
    sessions.add(session, (principal, version), identity, 0, &keys, state)
}

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_minion_is_alive_for_two_heartbeats() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let session = add(&sessions, 1, "m1", SessionState::Accepted);
    assert!(sessions.alive(&id("m1")).is_none(), "it has proven nothing");
    assert_eq!(sessions.heard(&session), PresenceChange::Arrived);
    Clock.pause(2 * HEARTBEAT).await;
    assert!(sessions.alive(&id("m1")).is_some());
    Clock.pause(Duration::from_millis(1)).await;
    assert!(sessions.alive(&id("m1")).is_none());
    assert_eq!(sessions.sweep(), [id("m1")]);
    assert_eq!(sessions.sweep(), [], "told once");
    assert_eq!(sessions.minions(), 0);
    // It was only stopped: the same session goes on.
    assert_eq!(sessions.heard(&session), PresenceChange::Arrived);
    assert!(sessions.alive(&id("m1")).is_some());
    assert_eq!(sessions.heard(&session), PresenceChange::None);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_session_is_forgotten_after_two_heartbeats_unless_it_is_used() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let unused = add(&sessions, 1, "m1", SessionState::Accepted);
    assert_eq!(sessions.heard(&unused), PresenceChange::Arrived);
    let used = add(&sessions, 2, "m1", SessionState::Accepted);
    assert_eq!(sessions.heard(&used), PresenceChange::Replaced);
    let current = add(&sessions, 3, "m1", SessionState::Accepted);
    assert_eq!(sessions.heard(&current), PresenceChange::Replaced);
    for _ in 0..4 {
        Clock.pause(HEARTBEAT).await;
        assert_eq!(sessions.heard(&used), PresenceChange::None);
        assert_eq!(sessions.heard(&current), PresenceChange::None);
        sessions.sweep();
    }
    assert!(sessions.get(unused.id).is_none());
    assert_eq!(used.state(), SessionState::Replaced, "it is told why");
    assert!(sessions.get(used.id).is_some() && sessions.get(current.id).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_proves_nothing_is_bounded_and_soon_forgotten() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    for number in 0..UNPROVEN {
        assert!(sessions.has_room());
        let number = u16::try_from(number).unwrap();
        add(
            &sessions,
            number,
            &format!("m{number}"),
            SessionState::Accepted,
        );
    }
    assert!(!sessions.has_room());
    Clock.pause(UNPROVEN_FOR + Duration::from_millis(1)).await;
    assert_eq!(sessions.sweep(), []);
    assert!(sessions.has_room());
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
        assert_eq!(sessions.heard(&session), PresenceChange::None);
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
    assert_eq!(sessions.heard(&seated), PresenceChange::Arrived);
    for number in 1..100 {
        add(&sessions, number, "m1", SessionState::Accepted);
    }
    assert_eq!(sessions.len(), PER_KEY);
    assert!(sessions.get(seated.id).is_some());
    sessions.end_minion(&id("m1"));
    assert_eq!(seated.state(), SessionState::KeyGone);
    assert_eq!(
        sessions.accept(&seated),
        PresenceChange::None,
        "gone is gone"
    );
    assert!(sessions.alive(&id("m1")).is_none());
}
