//! Leases and presence against a model, through thousands of schedules.

use proptest::prelude::*;

use super::*;

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
            let mut published: Vec<(u64, usize, MustClaim)> = Vec::new();
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
                    let seated = table.minions.values();
                    let lost = seated.filter(|session| table.all[session].lost);
                    prop_assert_eq!(lost.count(), table.lost);
                }
                // Each connection of a session that has ended is cut, and no other.
                let ended = sessions.take_ended_connections(0);
                cut.extend(ended.iter().map(|ended| ended.peer.connection as usize));
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
