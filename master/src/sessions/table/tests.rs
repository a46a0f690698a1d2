use super::*;
use crate::sessions::{ConnectionId, MinionStart, UNPROVEN};
use proptest::prelude::*;
use saline_protocol::message::{Claims, PeerVersion, StartId};
use saline_protocol::transport::Peer;

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
        origin: Origin::Network,
        listener: 0,
        address: None,
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
            PresenceChange::Replaced(old) => Self::Replaced(old.id),
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
    for number in 0..UNPROVEN {
        assert!(sessions.has_room(Origin::Network));
        let number = u16::try_from(number).unwrap();
        add(
            &sessions,
            number,
            &format!("m{number}"),
            SessionState::Accepted,
        );
    }
    assert!(!sessions.has_room(Origin::Network));
    assert!(sessions.has_room(Origin::Local));
    Clock.pause(UNPROVEN_FOR + Duration::from_millis(1)).await;
    assert_eq!(sessions.sweep(), []);
    assert!(sessions.has_room(Origin::Network));
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
    Peer::new(connection, None)
}

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
    let anew = sessions.grant_lease(&session, 61_001);
    assert!(!anew.covers(61_001), "it had lapsed");
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
    assert_eq!(sessions.claims(2_000, nobody()), Claims::NONE);
    // The same process with a new session has dropped the old lease.
    let same = add(&sessions, 2, "m1", SessionState::Accepted);
    seat(&sessions, &same, 1);
    sessions.grant_lease(&same, 1_000);
    assert_eq!(sessions.claims(2_000, nobody()), Claims::NONE);
    // Another process may live beside the old one.
    let other = add(&sessions, 3, "m1", SessionState::Accepted);
    hear(&sessions, &other);
    assert!(sessions.lives_beside(&id("m1"), start(2, false)));
    assert!(!sessions.lives_beside(&id("m1"), start(2, true)));
    sessions.seat(&other, start(2, false));
    assert_eq!(sessions.claims(2_000, nobody()), Claims::Of(vec![id("m1")]));
    assert_eq!(
        sessions.claims(31_001, nobody()),
        Claims::NONE,
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
    assert_eq!(claims, Claims::Of(vec![id("m1")]));
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
    assert_eq!(sessions.claims(2_000, std::iter::empty()), Claims::All);
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
    ConnectionId { listener, number }
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

/// What may happen to the sessions of three minions.
#[derive(Debug, Clone)]
enum Event {
    /// A new session of the minion reconciles: of its process, of the next process in the same place, or of
    /// one that may live beside it.
    Seat(usize, Process),
    /// The minion's session with this number, of those that were made, asks for something.
    Hear(usize),
    /// It sends a heartbeat.
    Beat(usize),
    /// Its connection ends.
    Depart(usize),
    Goodbye(usize),
    Time(u64),
    Sweep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    Same,
    Next,
    Beside,
}

fn event() -> impl Strategy<Value = Event> {
    let process = prop_oneof![
        Just(Process::Same),
        Just(Process::Next),
        Just(Process::Beside)
    ];
    prop_oneof![
        (0..3usize, process).prop_map(|(minion, process)| Event::Seat(minion, process)),
        (0..12usize).prop_map(Event::Hear),
        (0..12usize).prop_map(Event::Beat),
        (0..12usize).prop_map(Event::Beat),
        (0..12usize).prop_map(Event::Depart),
        (0..12usize).prop_map(Event::Goodbye),
        (0..40_000u64).prop_map(Event::Time),
        (0..900u64).prop_map(Event::Time),
        Just(Event::Sweep),
    ]
}

/// A session as the minion's side sees it.
struct Made {
    minion: usize,
    session: Arc<Session>,
    /// The process that holds it, which acts on its lease while it lives.
    process: u8,
    lease: Lease,
    /// When it spoke last, and whether its connection has ended since: then when.
    heard: u64,
    cut: Option<u64>,
    is_seated: bool,
    /// Whether the process that held it has ended, or has dropped it.
    is_over: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A process that acts on its lease never begins what was published as not for its minion, and presence
    /// is what two heartbeats and a second of grace say.
    #[test]
    fn leases_are_kept_and_presence_is_true(events in proptest::collection::vec(event(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async move {
            let sessions = Sessions::new(Clock, HEARTBEAT, 10);
            let names = ["m0", "m1", "m2"].map(id);
            let mut made: Vec<Made> = Vec::new();
            let (mut now, mut processes) = (0, [0u8; 3]);
            // The connections that have ended by themselves, and those that were cut.
            let (mut departed, mut cut) = (HashSet::new(), HashSet::new());
            // What was not offered to a minion.
            let mut published: Vec<(u64, usize, Claims)> = Vec::new();
            // The master's time is at another place than the table's.
            let master = |now: u64| 1_000_000 + now;
            for event in events {
                match event {
                    Event::Seat(minion, process) => {
                        if process != Process::Same {
                            processes[minion] += 1;
                        }
                        let number = u16::try_from(made.len()).unwrap();
                        let name = names[minion].as_str();
                        let session = add(&sessions, number, name, SessionState::Accepted);
                        sessions.heard(&session);
                        sessions.note_connection(&session, 0, peer(made.len() as u64));
                        let ended = process == Process::Next;
                        sessions.seat(&session, start(processes[minion], ended));
                        for other in made.iter_mut().filter(|other| other.minion == minion) {
                            other.is_seated = false;
                            // Its process dropped it, or has ended.
                            other.is_over |= ended || other.process == processes[minion];
                        }
                        made.push(Made {
                            minion,
                            session,
                            process: processes[minion],
                            lease: Lease::default(),
                            heard: now,
                            cut: None,
                            is_seated: true,
                            is_over: false,
                        });
                    }
                    Event::Hear(at) | Event::Beat(at) => {
                        let Some(made) = made.get_mut(at).filter(|made| made.is_seated) else {
                            continue;
                        };
                        sessions.heard(&made.session);
                        sessions.note_connection(&made.session, 0, peer(at as u64));
                        departed.remove(&at);
                        (made.heard, made.cut) = (now, None);
                        if matches!(event, Event::Beat(_)) {
                            made.lease = sessions.grant_lease(&made.session, master(now));
                        }
                    }
                    Event::Depart(at) => {
                        if let Some(made) = made.get_mut(at) {
                            sessions.departed(0, peer(at as u64));
                            departed.insert(at);
                            made.cut.get_or_insert(now);
                        }
                    }
                    Event::Goodbye(at) => {
                        if let Some(made) = made.get_mut(at).filter(|made| made.is_seated) {
                            sessions.remove(&made.session);
                            (made.is_seated, made.is_over) = (false, true);
                        }
                    }
                    Event::Time(passes) => {
                        Clock.pause(Duration::from_millis(passes)).await;
                        now += passes;
                    }
                    Event::Sweep => {
                        sessions.sweep();
                        sessions.forget_leases(master(now));
                    }
                }
                {
                    let table = lock(&sessions.table);
                    let lost = |session: &&Arc<Session>| lock(&session.inner).lost;
                    prop_assert_eq!(table.minions.values().filter(lost).count(), table.lost);
                }
                // Each connection of a session that has ended is cut, and no other.
                let ended = sessions.take_ended_connections(0);
                cut.extend(ended.iter().map(|ended| ended.number as usize));
                let standing: HashMap<_, _> = sessions.connections().into_iter().collect();
                for (at, made) in made.iter().enumerate() {
                    let stands = standing.get(&connection(0, at as u64)) == Some(&made.session.id);
                    prop_assert_eq!(stands, !departed.contains(&at) && !cut.contains(&at));
                    let is_alive = made.session.state() == SessionState::Accepted
                        && sessions.get(made.session.id).is_some();
                    prop_assert!(is_alive || !stands);
                    prop_assert!(stands || departed.contains(&at) || !is_alive);
                }
                for (minion, name) in names.iter().enumerate() {
                    let seated = made.iter().find(|made| made.minion == minion && made.is_seated);
                    let is_here = |made: &Made| {
                        now - made.heard <= 30_000 && made.cut.is_none_or(|at| now - at < 1_000)
                    };
                    let present = seated.is_some_and(is_here);
                    prop_assert_eq!(sessions.alive(name).is_some(), present, "{}", name);
                    let created = master(now);
                    let offered = sessions.is_offered(name, created);
                    prop_assert!(offered || !present);
                    if !offered {
                        let claims = sessions.claims(created, std::iter::once(name));
                        published.push((created, minion, claims));
                    }
                }
                // A publication may arrive at any time later.
                for made in made.iter().filter(|made| !made.is_over) {
                    for (created, minion, claims) in &published {
                        let begins = made.minion == *minion
                            && made.lease.covers(*created)
                            && !claims.include(&names[*minion]);
                        prop_assert!(!begins, "m{minion} begins what it was not offered");
                    }
                }
            }
            Ok(())
        })?;
    }
}
