//! The connections of sessions: departures, and what is to be cut.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_minion_whose_connection_ended_is_gone_after_a_second() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let session = add(&sessions, 1, "m1", SessionState::Accepted);
    seat(&sessions, &session, 1);
    assert!(sessions.note_connection(&session, 0, peer(7)));
    assert!(!sessions.note_connection(&session, 0, peer(7)));
    sessions.departed(0, peer(8));
    sessions.departed(1, peer(7));
    sessions.departed(0, peer(7));
    assert!(sessions.alive(&id("m1")).is_some(), "it may come back");
    assert!(sessions.take_cut().is_empty());
    Clock.pause(Duration::from_secs(1)).await;
    assert!(sessions.alive(&id("m1")).is_none());
    assert_eq!(sessions.take_cut(), [id("m1")]);
    assert!(sessions.take_cut().is_empty(), "told once");
    assert_eq!(hear(&sessions, &session), Change::Arrived);
    assert!(sessions.alive(&id("m1")).is_some());
    // It came back over another connection before the end of the first one was known.
    assert!(sessions.note_connection(&session, 0, peer(9)));
    assert!(sessions.note_connection(&session, 0, peer(10)));
    sessions.departed(0, peer(9));
    Clock.pause(Duration::from_secs(2)).await;
    assert!(sessions.take_cut().is_empty());
    assert!(sessions.alive(&id("m1")).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_to_be_cut_when_its_session_ends_however_that_is() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let cut = || sessions.take_ended_connections(0);
    let on = |number: u16, id: &str| {
        let session = add(&sessions, number, id, SessionState::Accepted);
        hear(&sessions, &session);
        assert!(sessions.note_connection(&session, 0, peer(number.into())));
        session
    };
    let removed = on(1, "m1");
    assert_eq!(cut(), []);
    sessions.remove(&removed);
    assert_eq!(cut(), [connection(0, 1)]);
    assert_eq!(cut(), [], "once");
    // A request that was opened before, and is judged after.
    assert!(!sessions.note_connection(&removed, 0, peer(1)));
    assert!(!sessions.note_connection(&removed, 0, peer(99)));
    let replaced = on(2, "m1");
    seat(&sessions, &replaced, 1);
    let current = on(3, "m1");
    seat(&sessions, &current, 2);
    assert_eq!(cut(), [connection(0, 2)]);
    assert!(!sessions.note_connection(&replaced, 0, peer(2)));
    sessions.end_minion(&id("m1"), None);
    assert_eq!(cut(), [connection(0, 3)]);
    on(4, "m2");
    Clock.pause(Duration::from_secs(1_000)).await;
    sessions.sweep();
    assert_eq!(cut(), [connection(0, 4)]);
    // The one that it leaves, and none that has departed.
    let moves = on(5, "m3");
    assert!(sessions.note_connection(&moves, 1, peer(5)));
    assert_eq!(cut(), [connection(0, 5)]);
    sessions.departed(1, peer(5));
    sessions.remove(&moves);
    assert_eq!(cut(), []);
}

#[tokio::test(start_paused = true)]
async fn nobody_has_the_connections_of_others_cut() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    let honest = add(&sessions, 1, "m1", SessionState::Accepted);
    assert!(sessions.note_connection(&honest, 0, peer(7)));
    // Its session was made over the other listener, and it is used over this one, whose connections have the same
    // numbers.
    let other = add(&sessions, 2, "m2", SessionState::Accepted);
    assert!(sessions.note_connection(&other, 1, peer(7)));
    sessions.remove(&other);
    assert_eq!(sessions.take_ended_connections(0), [connection(1, 7)]);
    // Two sessions over one connection: it stands as long as the one that spoke last.
    let second = add(&sessions, 3, "m1", SessionState::Accepted);
    assert!(sessions.note_connection(&second, 0, peer(7)));
    sessions.remove(&honest);
    assert_eq!(sessions.take_ended_connections(0), []);
    sessions.remove(&second);
    assert_eq!(sessions.take_ended_connections(0), [connection(0, 7)]);
}

#[tokio::test(start_paused = true)]
async fn a_key_stands_on_few_connections() {
    let sessions = Sessions::new(Clock, HEARTBEAT, 10);
    for number in 0..100 {
        let session = add(&sessions, number, "m1", SessionState::Accepted);
        hear(&sessions, &session);
        assert!(sessions.note_connection(&session, 0, peer(number.into())));
    }
    assert_eq!(sessions.connections().len(), PER_KEY);
    assert_eq!(sessions.take_ended_connections(96), [], "they may wait");
    assert_eq!(sessions.take_ended_connections(95).len(), 96);
}
