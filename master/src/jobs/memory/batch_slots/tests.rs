//! The slots under thousands of schedules of minions that come, go, claim, lose the answer, end and fail, of
//! stops and of restarts of the master, against promises that are counted apart from it.

use super::*;
use proptest::prelude::*;

use MinionJobState::{Cancelled, NotConnected, Offered, Queued, Returned, Running, Waiting};

const GRACE: MasterTime = 100;

/// What may happen.
#[derive(Debug, Clone)]
enum Event {
    Time(u64),
    /// The master looks who is present.
    Look,
    Arrive(usize),
    Leave(usize),
    /// A minion that was told of its turn claims the job, and gets the answer or not.
    Claim(usize, bool),
    /// A minion that runs the job says so.
    Report(usize),
    End(usize, bool),
    Stop,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let claim =
        || (0..8usize, prop::bool::weighted(0.8)).prop_map(|(at, got)| Event::Claim(at, got));
    let end = || (0..8usize, prop::bool::weighted(0.1)).prop_map(|(at, bad)| Event::End(at, bad));
    let arrive = || (0..8usize).prop_map(Event::Arrive);
    prop_oneof![
        (0..150u64).prop_map(Event::Time),
        (0..30u64).prop_map(Event::Time),
        Just(Event::Look),
        Just(Event::Look),
        arrive(),
        arrive(),
        (0..8usize).prop_map(Event::Leave),
        claim(),
        claim(),
        claim(),
        (0..8usize).prop_map(Event::Report),
        end(),
        end(),
        prop::sample::select(vec![Event::Look, Event::Look, Event::Stop, Event::Restart]),
    ]
}

/// A minion as it is, and what the slots may conclude of it.
#[derive(Debug, Clone)]
struct Minion {
    state: MinionJobState,
    is_present: bool,
    /// As of the last look.
    away: Option<MasterTime>,
    /// The message about its turn has come.
    was_told: bool,
    /// Since when it has its turn without a grant.
    turn: Option<MasterTime>,
    /// A claim was granted, and the slot was not lost since.
    holds: bool,
    was_granted: bool,
    /// How often it was present and did not claim in its turn.
    turns_missed: u8,
    begun: u32,
}

impl Minion {
    fn is_open(&self) -> bool {
        !self.state.is_final()
    }

    fn is_passed_over(&self) -> bool {
        self.turns_missed >= 3 && !self.was_granted && self.turn.is_none()
    }
}

#[derive(Debug)]
struct World {
    slots: BatchSlots,
    batch: Batch,
    now: MasterTime,
    minions: Vec<Minion>,
    /// When slots were given back by minions that had been granted the job.
    ends: Vec<MasterTime>,
    /// A failure or a stop.
    is_stopped: bool,
    /// Until then all slots may rest, since the master was started again.
    rests_until: MasterTime,
}

impl World {
    fn new(batch: Batch, present: &[bool]) -> Self {
        let states = present.iter().map(|_| Waiting);
        let minions = present.iter().map(|is_present| Minion {
            state: Waiting,
            is_present: *is_present,
            away: Some(0),
            was_told: false,
            turn: None,
            holds: false,
            was_granted: false,
            turns_missed: 0,
            begun: 0,
        });
        let mut world = Self {
            slots: BatchSlots::new(batch, GRACE, states),
            batch,
            now: 1_000,
            minions: minions.collect(),
            ends: Vec::new(),
            is_stopped: false,
            rests_until: 0,
        };
        world.look();
        world.step();
        world
    }

    fn busy(&self) -> usize {
        let has_slot = |minion: &&Minion| minion.holds || minion.turn.is_some();
        let rests = |end: &&MasterTime| **end + self.batch.wait_ms > self.now;
        self.minions.iter().filter(has_slot).count() + self.ends.iter().filter(rests).count()
    }

    fn set(&mut self, at: usize, to: MinionJobState, failed: bool) {
        let minion = &mut self.minions[at];
        assert!(
            crate::jobs::may_become(minion.state, to),
            "{minion:?} {to:?}"
        );
        minion.state = to;
        if to.is_final() {
            if std::mem::take(&mut minion.holds) {
                self.ends.push(self.now);
            }
            minion.turn = None;
        }
        self.slots.changed(at, to, failed, self.now);
    }

    fn look(&mut self) {
        let present: Vec<bool> = self.minions.iter().map(|m| m.is_present).collect();
        self.slots.look(self.now, |at| present[at]);
        for minion in &mut self.minions {
            if !minion.is_open() {
                continue;
            }
            minion.away = match minion.is_present {
                true => None,
                false => Some(minion.away.unwrap_or(self.now)),
            };
            let is_late = minion.turn.is_some_and(|at| at + GRACE <= self.now);
            if minion.away.is_some() && minion.is_passed_over() {
                minion.turns_missed = 0;
            } else if minion.away.is_none() && is_late {
                minion.turns_missed += 1;
            }
            // Who is away loses its turn at once, who does not claim when the time for it is over, and who
            // was granted the job its slot when the grace time is over.
            if minion.away.is_some() || is_late {
                minion.turn = None;
            }
            if minion.holds && minion.away.is_some_and(|since| since + GRACE <= self.now) {
                minion.holds = false;
                self.ends.push(self.now);
            }
        }
    }

    /// What the store does after every event.
    fn step(&mut self) {
        for at in self.slots.left_by_stop() {
            assert!(self.is_stopped && !self.minions[at].was_granted);
            self.set(at, Cancelled, false);
        }
        for at in self.slots.left_behind(self.now) {
            let minion = &self.minions[at];
            assert!(!minion.was_granted, "{minion:?}");
            if !minion.is_passed_over() {
                assert!(minion.away.is_some(), "{minion:?}");
                assert!(!self.minions.iter().any(|m| m.holds || m.turn.is_some()));
            }
            match self.batch.queues {
                true if minion.state == Queued => {}
                true => self.set(at, Queued, false),
                false => self.set(at, NotConnected, false),
            }
        }
        let turns = self.slots.advance(self.now);
        for at in &turns {
            let minion = &mut self.minions[*at];
            assert!(minion.away.is_none() && minion.is_open(), "{minion:?}");
            assert!(!minion.holds && minion.turn.is_none(), "{minion:?}");
            assert!(
                !self.is_stopped || minion.was_granted,
                "a turn after the stop"
            );
            minion.turn = Some(self.now);
            minion.was_told = minion.is_present;
        }
        let size = self.batch.size as usize;
        assert!(
            turns.is_empty() || self.busy() <= size,
            "too many have a slot"
        );
        // No slot is idle while somebody waits who is there.
        let waits = |minion: &&Minion| {
            minion.is_open()
                && minion.away.is_none()
                && minion.turn.is_none()
                && !minion.was_granted
                && !minion.is_passed_over()
        };
        let rests = self.now < self.rests_until;
        if !self.is_stopped && !rests && self.minions.iter().any(|minion| waits(&minion)) {
            assert!(self.busy() >= size, "a slot is idle: {:?}", self.slots);
        }
        let active = self.minions.iter().filter(|m| m.holds || m.turn.is_some());
        assert_eq!(self.slots.counts().active, active.count());
    }

    fn claim(&mut self, at: usize, gets_answer: bool) {
        let minion = &self.minions[at];
        // Who comes back asks what it missed, and is told of a job that was granted to it.
        let asks = minion.was_told || (minion.was_granted && minion.is_open());
        if !minion.is_present || minion.begun > 0 || !asks || !minion.is_open() {
            return;
        }
        let (had_turn, held) = (minion.turn.is_some(), minion.holds);
        let granted = self.slots.claim(at, self.now);
        let minion = &mut self.minions[at];
        minion.was_told = false;
        if had_turn && (!self.is_stopped || minion.was_granted) || held {
            assert!(granted);
        } else if granted {
            assert!(minion.was_granted, "granted without a turn: {minion:?}");
        }
        if !granted {
            // It is there, so it is the next one.
            if minion.was_granted {
                minion.away = None;
            }
            return;
        }
        (minion.turn, minion.holds, minion.was_granted) = (None, true, true);
        minion.begun += u32::from(gets_answer);
        if minion.state != Offered {
            self.set(at, Offered, false);
        }
        assert!(had_turn || held || self.busy() <= self.batch.size as usize);
    }

    fn restart(&mut self) {
        let states: Vec<MinionJobState> = self.minions.iter().map(|m| m.state).collect();
        let mut slots = BatchSlots::new(self.batch, GRACE, states.into_iter());
        slots.recover(self.now);
        if self.is_stopped {
            slots.stop(BatchStop::Halted);
        }
        self.slots = slots;
        let now = self.now;
        self.rests_until = now + self.batch.wait_ms;
        for minion in &mut self.minions {
            (minion.is_present, minion.away) = (false, Some(now));
            (minion.was_told, minion.turn) = (false, None);
            minion.turns_missed = 0;
            minion.holds = minion.is_open() && minion.was_granted;
        }
    }

    fn apply(&mut self, event: &Event) {
        let count = self.minions.len();
        match event {
            Event::Time(passed) => self.now += passed,
            Event::Look => self.look(),
            Event::Arrive(at) => self.minions[at % count].is_present = true,
            Event::Leave(at) => {
                let minion = &mut self.minions[at % count];
                (minion.is_present, minion.was_told) = (false, false);
            }
            Event::Claim(at, gets_answer) => self.claim(at % count, *gets_answer),
            Event::Report(at) => {
                let at = at % count;
                let minion = &mut self.minions[at];
                if minion.begun > 0 && minion.state == Offered && minion.is_present {
                    minion.holds = true;
                    self.set(at, Running, false);
                }
            }
            Event::End(at, failed) => {
                let at = at % count;
                let minion = &self.minions[at];
                if minion.begun > 0 && minion.is_open() && minion.is_present {
                    self.is_stopped |= *failed && self.batch.failhard;
                    self.set(at, Returned, *failed);
                }
            }
            Event::Stop => {
                self.is_stopped = true;
                self.slots.stop(BatchStop::Cancelled);
            }
            Event::Restart => self.restart(),
        }
        self.step();
    }

    /// Everybody comes and does what it is told, until the batch is complete.
    fn finish(&mut self) {
        // Who was passed over and is queued gets its turn when it comes back.
        for at in 0..self.minions.len() {
            self.apply(&Event::Leave(at));
        }
        self.apply(&Event::Look);
        for at in 0..self.minions.len() {
            self.apply(&Event::Arrive(at));
        }
        for _ in 0..4 * self.minions.len() + 8 {
            // Every slot has rested then, and no turn that came in the last round has passed.
            self.apply(&Event::Time(GRACE - 1));
            self.apply(&Event::Look);
            for at in 0..self.minions.len() {
                self.apply(&Event::Claim(at, true));
                self.apply(&Event::End(at, false));
            }
        }
    }
}

fn batch() -> impl Strategy<Value = Batch> {
    let wait = prop_oneof![Just(0), 1..80u64];
    (1..4u32, wait, any::<bool>(), any::<bool>()).prop_map(|(size, wait_ms, failhard, queues)| {
        Batch {
            size,
            wait_ms,
            timeout_ms: 0,
            failhard,
            queues,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_window_keeps_its_promises(
        batch in batch(),
        present in prop::collection::vec(any::<bool>(), 1..8),
        events in prop::collection::vec(event(), 0..120),
    ) {
        let mut world = World::new(batch, &present);
        for event in &events {
            world.apply(event);
        }
        world.finish();
        prop_assert!(world.slots.is_complete(), "{:?}", world);
        for minion in &world.minions {
            prop_assert!(minion.begun <= 1);
            match minion.state {
                Returned => prop_assert_eq!(minion.begun, 1),
                Cancelled => prop_assert!(world.is_stopped && !minion.was_granted),
                NotConnected => prop_assert!(!batch.queues && !minion.was_granted),
                other => prop_assert!(false, "{:?} at the end", other),
            }
        }
        let counts = world.slots.counts();
        prop_assert_eq!((counts.ended, counts.waiting, counts.active), (counts.minions, 0, 0));
    }
}

const ONE: Batch = Batch {
    size: 1,
    wait_ms: 0,
    timeout_ms: 0,
    failhard: false,
    queues: false,
};

#[test]
fn a_slot_rests_for_the_whole_wait_and_no_longer() {
    let batch = Batch { wait_ms: 50, ..ONE };
    let mut world = World::new(batch, &[true, true]);
    assert!(world.minions[0].was_told && !world.minions[1].was_told);
    world.apply(&Event::Claim(0, true));
    world.apply(&Event::End(0, false));
    assert_eq!(world.slots.next_slot(world.now), Some(1_050));
    world.apply(&Event::Time(49));
    assert!(!world.minions[1].was_told);
    world.apply(&Event::Time(1));
    assert!(world.minions[1].was_told);
}

#[test]
fn who_is_away_takes_no_slot_and_gets_its_turn_when_it_comes_in_time() {
    let mut world = World::new(ONE, &[false, true, true]);
    assert!(world.minions[1].was_told);
    world.apply(&Event::Arrive(0));
    world.apply(&Event::Look);
    world.apply(&Event::Claim(1, true));
    world.apply(&Event::End(1, false));
    assert!(
        world.minions[0].was_told,
        "it is the first of those that wait"
    );
}

#[test]
fn a_minion_that_is_present_and_does_not_claim_lets_the_others_pass() {
    let mut world = World::new(ONE, &[true, true]);
    world.apply(&Event::Time(GRACE));
    world.apply(&Event::Look);
    assert!(world.minions[1].was_told && world.minions[0].turn.is_none());
    // Its claim comes late.
    world.apply(&Event::Claim(0, true));
    assert_eq!(world.minions[0].begun, 0);
}

#[test]
fn a_minion_that_lets_three_turns_pass_is_left_out() {
    for queues in [false, true] {
        let mut world = World::new(Batch { queues, ..ONE }, &[true]);
        for _ in 0..2 {
            world.apply(&Event::Time(GRACE));
            world.apply(&Event::Look);
            assert_eq!(world.minions[0].state, Waiting);
            assert!(world.minions[0].turn.is_some(), "it has the next turn");
        }
        world.apply(&Event::Time(GRACE));
        world.apply(&Event::Look);
        if !queues {
            assert_eq!(world.minions[0].state, NotConnected);
            assert!(world.slots.is_complete());
            continue;
        }
        assert_eq!(world.minions[0].state, Queued);
        world.apply(&Event::Look);
        assert_eq!(world.minions[0].turn, None);
        // It was started again.
        for event in [
            Event::Leave(0),
            Event::Look,
            Event::Arrive(0),
            Event::Look,
            Event::Claim(0, true),
        ] {
            world.apply(&event);
        }
        assert_eq!(world.minions[0].begun, 1);
    }
}

#[test]
fn a_minion_that_was_there_a_moment_ago_is_not_left_behind() {
    let mut world = World::new(ONE, &[true, true]);
    world.apply(&Event::Claim(0, true));
    world.apply(&Event::Leave(1));
    world.apply(&Event::Look);
    world.apply(&Event::End(0, false));
    assert_eq!(world.minions[1].state, Waiting);
    world.apply(&Event::Time(GRACE));
    world.apply(&Event::Look);
    assert_eq!(world.minions[1].state, NotConnected);
}

#[test]
fn a_failure_halts_a_batch_once_and_is_named() {
    let batch = Batch {
        size: 2,
        failhard: true,
        ..ONE
    };
    let mut world = World::new(batch, &[true; 4]);
    world.apply(&Event::Claim(0, true));
    world.apply(&Event::Claim(1, true));
    world.apply(&Event::End(1, true));
    assert_eq!(world.slots.stopped(), Some((BatchStop::Halted, Some(1))));
    assert_eq!(world.minions[0].state, Offered, "it goes on");
    assert_eq!(world.minions[2].state, Cancelled);
    world.apply(&Event::End(0, true));
    assert_eq!(world.slots.stopped(), Some((BatchStop::Halted, Some(1))));
    assert!(world.slots.is_complete());
}

#[test]
fn a_batch_says_until_when_it_waits_for_those_who_are_gone() {
    let batch = Batch {
        size: 1,
        wait_ms: 0,
        timeout_ms: 0,
        failhard: false,
        queues: false,
    };
    let mut slots = BatchSlots::new(batch, GRACE, [Waiting; 3].into_iter());
    let is_never_there = 2;
    slots.look(1_000, |at| at != is_never_there);
    assert_eq!(slots.advance(1_000), [0]);
    assert!(slots.claim(0, 1_000));
    assert_eq!(slots.grace_ends(), None, "it runs");
    slots.look(1_010, |at| at == 1);
    assert_eq!(
        slots.grace_ends(),
        Some(1_010 + GRACE),
        "its slot is needed"
    );
    slots.look(1_020, |_| false);
    assert_eq!(slots.grace_ends(), Some(1_010 + GRACE));
    slots.changed(0, Returned, false, 1_030);
    assert_eq!(slots.grace_ends(), Some(1_020 + GRACE));
    assert_eq!(slots.left_behind(1_019 + GRACE), [0; 0]);
    assert_eq!(slots.left_behind(1_020 + GRACE), [1, 2]);
}

#[test]
fn a_minion_that_does_not_end_gives_its_slot_up_after_the_time_out_and_for_good() {
    let batch = Batch {
        timeout_ms: 500,
        ..ONE
    };
    let mut slots = BatchSlots::new(batch, GRACE, [Waiting; 3].into_iter());
    let everybody = |_| true;
    slots.look(1_000, everybody);
    assert_eq!(slots.advance(1_000), [0]);
    assert!(slots.claim(0, 1_000));
    slots.changed(0, Running, false, 1_001);
    // The time begins when the master first looks, so it is never shorter.
    slots.look(1_010, everybody);
    slots.look(1_509, everybody);
    assert_eq!(slots.advance(1_509), [0; 0]);
    slots.look(1_510, everybody);
    assert_eq!(slots.advance(1_510), [1], "the next one has the slot");
    // It is heard again, and claims again: it takes nobody's slot.
    slots.changed(0, Running, false, 1_511);
    assert!(slots.claim(0, 1_512));
    assert_eq!(slots.counts().active, 1);
    assert!(slots.claim(1, 1_520));
    slots.changed(1, Returned, false, 1_530);
    assert_eq!(slots.advance(1_530), [2]);
    assert!(slots.claim(2, 1_540));
    slots.changed(2, Returned, false, 1_550);
    assert!(slots.is_complete(), "nobody waits for the one that stalls");
    slots.changed(0, Returned, false, 9_000);
    assert_eq!(slots.counts().ended, 3);
    assert_eq!(slots.stopped(), None);
}

#[test]
fn a_minion_that_does_not_end_is_a_failure_that_halts() {
    let batch = Batch {
        timeout_ms: 500,
        failhard: true,
        ..ONE
    };
    let mut slots = BatchSlots::new(batch, GRACE, [Waiting; 2].into_iter());
    slots.look(1_000, |_| true);
    slots.advance(1_000);
    assert!(slots.claim(0, 1_000));
    slots.look(1_000, |_| true);
    slots.look(1_500, |_| true);
    assert_eq!(slots.stopped(), Some((BatchStop::Halted, Some(0))));
    assert_eq!(slots.left_by_stop(), [1]);
}
