//! The slots of a batch: which minions hold them, and whose turn is next. A state machine
//! without input or output.
//!
//! A minion that is present gets its *turn* when a slot is free: it is told so and takes the slot. It begins only
//! when it claims the job and still has its turn; until then it can lose the turn, since it cannot have begun.
//! From the grant on it holds the slot until it has ended, has been away for the grace time, or has had the slot for the
//! time-out of the batch.

use std::collections::{BTreeSet, VecDeque};

use saline_messages::{Batch, MasterTime, MinionJobState};

use crate::jobs::memory::batch_progress::BatchStop;

/// How often a minion may let its turn pass, present and without a claim, before the batch goes on without it.
const MAX_TURNS_MISSED: u8 = 3;

/// The slots of one batch. A minion is its index in the states of the job.
#[derive(Debug)]
pub(crate) struct BatchSlots {
    batch: Batch,
    /// How long a minion may be away, or take to claim the job, before others take its slot, in milliseconds.
    grace: MasterTime,
    members: Vec<Member>,
    /// The present minions that wait for their turn, by their tickets.
    ready: BTreeSet<(i64, usize)>,
    /// The number of slots that minions hold.
    taken: usize,
    /// When the slots are free again whose minions have ended, the earliest first.
    resting: VecDeque<MasterTime>,
    /// Until then every free slot rests.
    opens: MasterTime,
    /// The number of minions that wait for their turn.
    waiting: usize,
    /// The number of minions that have ended.
    ended: usize,
    stopped: Option<BatchStop>,
    /// The minion whose failure has halted the batch.
    failed: Option<usize>,
    /// The lowest and the highest ticket so far.
    tickets: (i64, i64),
    is_looked_at: bool,
    /// The minions that have let too many turns pass, and get no other one before they were away.
    passed_over: BTreeSet<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    place: MemberState,
    /// The minion's place in the order of turns.
    ticket: i64,
    /// Since when it is away; none while it is present.
    away: Option<MasterTime>,
    /// Whether a claim of it was ever granted, so that it may have begun.
    was_granted: bool,
    /// When [`BatchSlots::look`] first found it with its slot; none while it has none.
    holds_since: Option<MasterTime>,
    /// Whether it had its slot for longer than the batch allows. It gets no other one.
    is_overdue: bool,
    /// How many turns the minion has let pass.
    turns_missed: u8,
}

/// How far a minion is in the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberState {
    /// The minion's turn has not come.
    Waiting,
    /// The minion has its turn and a slot, and has until this time to claim the job.
    Turn(MasterTime),
    /// The minion's claim was granted, and it has a slot.
    Holding,
    /// The minion's claim was granted, and it was away, or took, for so long that it has no slot.
    Released,
    /// The minion has ended.
    Ended,
}

/// The numbers of minions by how far they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) minions: usize,
    pub(crate) waiting: usize,
    pub(crate) active: usize,
    pub(crate) ended: usize,
}

impl BatchSlots {
    /// Creates the slots of a batch whose minions are in these states. None of them counts as present before
    /// [`look`](Self::look) was called.
    pub(crate) fn new(
        batch: Batch,
        grace: MasterTime,
        states: impl Iterator<Item = MinionJobState>,
    ) -> Self {
        let mut slots = Self {
            batch,
            grace,
            members: Vec::new(),
            ready: BTreeSet::new(),
            taken: 0,
            resting: VecDeque::new(),
            opens: 0,
            waiting: 0,
            ended: 0,
            stopped: None,
            failed: None,
            tickets: (0, 0),
            is_looked_at: false,
            passed_over: BTreeSet::new(),
        };
        for state in states {
            let place = match state {
                MinionJobState::Waiting | MinionJobState::Queued => MemberState::Waiting,
                state if state.is_final() => MemberState::Ended,
                _ => MemberState::Holding,
            };
            slots.waiting += usize::from(place == MemberState::Waiting);
            slots.ended += usize::from(place == MemberState::Ended);
            slots.taken += usize::from(place == MemberState::Holding);
            slots.tickets.1 += 1;
            slots.members.push(Member {
                place,
                ticket: slots.tickets.1,
                away: Some(0),
                was_granted: place == MemberState::Holding,
                holds_since: None,
                is_overdue: false,
                turns_missed: 0,
            });
        }
        slots
    }

    /// Goes on with a batch that the store has at the start of a master, where everybody is away: minions get the
    /// grace time to come back, and free slots rest as if their minions had just ended.
    pub(crate) fn recover(&mut self, now: MasterTime) {
        for member in &mut self.members {
            member.away = Some(now);
        }
        self.opens = now.saturating_add(self.batch.wait_ms);
    }

    /// Returns the number of slots that nobody has and that do not rest.
    fn free_slots(&mut self, now: MasterTime) -> usize {
        while self.resting.front().is_some_and(|until| *until <= now) {
            self.resting.pop_front();
        }
        if now < self.opens {
            return 0;
        }
        // A batch has at least one slot, whatever the store says.
        let slots = self.batch.size.max(1) as usize;
        slots.saturating_sub(self.taken.saturating_add(self.resting.len()))
    }

    /// Whether [`look`](Self::look) was called since the slots were created.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.is_looked_at
    }

    /// Notes which minions are present. One that has its turn and is away loses it and its slot at once, one that is
    /// present and does not claim the job after the grace time, and lets the others pass; after the third time it is
    /// left out. One that holds a slot and is away loses the slot after the grace time, and one that holds it for longer
    /// than the batch allows loses it for good; with `failhard` that counts as a failure.
    pub(crate) fn look(&mut self, now: MasterTime, is_present: impl Fn(usize) -> bool) {
        self.is_looked_at = true;
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            if member.place == MemberState::Ended {
                continue;
            }
            member.away = match (is_present(at), member.away) {
                (true, _) => None,
                (false, since) => Some(since.unwrap_or(now)),
            };
            let (ticket, away) = (member.ticket, member.away);
            match (member.place, away) {
                (MemberState::Waiting, None) => self.make_ready(at),
                (MemberState::Waiting, Some(_)) => {
                    if self.passed_over.remove(&at) {
                        self.members[at].turns_missed = 0;
                    }
                    self.ready.remove(&(ticket, at));
                    if self.members[at].was_granted {
                        self.move_to(at, MemberState::Released);
                    }
                }
                (MemberState::Turn(_), Some(_)) => self.take_turn_back(at),
                (MemberState::Turn(until), None) if until <= now => {
                    self.tickets.1 += 1;
                    let member = &mut self.members[at];
                    member.ticket = self.tickets.1;
                    member.turns_missed = member.turns_missed.saturating_add(1);
                    if member.turns_missed >= MAX_TURNS_MISSED && !member.was_granted {
                        self.passed_over.insert(at);
                    }
                    self.take_turn_back(at);
                }
                (MemberState::Holding, Some(since)) if since.saturating_add(self.grace) <= now => {
                    self.move_to(at, MemberState::Released);
                    self.rest(now);
                }
                (MemberState::Holding, _) => self.end_overdue(at, now),
                _ => {}
            }
        }
    }

    /// Takes the slot of a minion that has had it for longer than the batch allows.
    fn end_overdue(&mut self, at: usize, now: MasterTime) {
        let since = *self.members[at].holds_since.get_or_insert(now);
        let timeout = self.batch.timeout_ms;
        if timeout == 0 || since.saturating_add(timeout) > now {
            return;
        }
        self.members[at].is_overdue = true;
        self.move_to(at, MemberState::Released);
        self.rest(now);
        self.failed(at);
    }

    /// Stops the batch if it stops at the first failure, which is this minion's.
    fn failed(&mut self, at: usize) {
        if self.batch.failhard && self.stopped.is_none() {
            self.stop(BatchStop::Halted);
            self.failed = Some(at);
        }
    }

    /// Gives turns to the minions that are next, while slots are free. Returns them.
    pub(crate) fn advance(&mut self, now: MasterTime) -> Vec<usize> {
        let mut turns = Vec::new();
        let mut free = self.free_slots(now);
        while free > 0
            && let Some((_, at)) = self.ready.pop_first()
        {
            self.move_to(at, MemberState::Turn(now.saturating_add(self.grace)));
            turns.push(at);
            free -= 1;
        }
        turns
    }

    fn take_turn_back(&mut self, at: usize) {
        let member = self.members[at];
        if member.away.is_some() && member.was_granted {
            return self.move_to(at, MemberState::Released);
        }
        self.move_to(at, MemberState::Waiting);
        if member.away.is_none() {
            self.make_ready(at);
        }
    }

    /// Puts a present minion that waits among those that are next, unless the batch was stopped.
    fn make_ready(&mut self, at: usize) {
        let member = self.members[at];
        if (self.stopped.is_none() || member.was_granted) && !self.passed_over.contains(&at) {
            self.ready.insert((member.ticket, at));
        }
    }

    /// Whether the job may be handed to the minion, which then claims it.
    pub(crate) fn may_claim(&self, at: usize) -> bool {
        let place = self.members.get(at).map(|member| member.place);
        matches!(
            place,
            Some(MemberState::Turn(_) | MemberState::Holding | MemberState::Released)
        )
    }

    /// Takes the claim of a minion that has not begun. Returns whether it is granted. A minion that had lost its slot
    /// gets a free one, or has the next turn.
    pub(crate) fn claim(&mut self, at: usize, now: MasterTime) -> bool {
        match self.members.get(at).map(|member| member.place) {
            Some(MemberState::Holding) => true,
            Some(MemberState::Turn(_))
                if self.stopped.is_some() && !self.members[at].was_granted =>
            {
                false
            }
            Some(MemberState::Turn(_)) => {
                self.hold(at);
                true
            }
            // It could hold up the others once more.
            Some(MemberState::Released) if self.members[at].is_overdue => true,
            Some(MemberState::Released) => {
                if self.free_slots(now) > 0 {
                    self.hold(at);
                    return true;
                }
                self.tickets.0 -= 1;
                let ticket = self.tickets.0;
                let member = &mut self.members[at];
                (member.ticket, member.away) = (ticket, None);
                self.move_to(at, MemberState::Waiting);
                self.make_ready(at);
                false
            }
            _ => false,
        }
    }

    /// Takes a change of a minion's state in the store. `failed` says that its return is one of a failure.
    pub(crate) fn changed(&mut self, at: usize, to: MinionJobState, failed: bool, now: MasterTime) {
        if at >= self.members.len() {
            return;
        }
        match to {
            // Even if this store knows of no grant.
            MinionJobState::Running => self.hold(at),
            to if to.is_final() => {
                let place = self.members[at].place;
                self.move_to(at, MemberState::Ended);
                if place == MemberState::Holding {
                    self.rest(now);
                }
                let failed =
                    failed || matches!(to, MinionJobState::LostTrack | MinionJobState::MayHaveRun);
                if failed {
                    self.failed(at);
                }
            }
            _ => {}
        }
    }

    fn hold(&mut self, at: usize) {
        self.members[at].was_granted = true;
        if !self.members[at].is_overdue {
            self.move_to(at, MemberState::Holding);
        }
    }

    fn rest(&mut self, now: MasterTime) {
        if self.batch.wait_ms > 0 {
            self.resting
                .push_back(now.saturating_add(self.batch.wait_ms));
        }
    }

    /// Moves a minion to another place, and counts.
    fn move_to(&mut self, at: usize, to: MemberState) {
        let has_slot = |place| matches!(place, MemberState::Turn(_) | MemberState::Holding);
        let member = &mut self.members[at];
        let from = std::mem::replace(&mut member.place, to);
        if to != MemberState::Holding {
            member.holds_since = None;
        }
        if to == MemberState::Ended {
            self.passed_over.remove(&at);
        }
        if from == MemberState::Waiting {
            self.ready.remove(&(member.ticket, at));
            self.waiting -= 1;
        }
        self.waiting += usize::from(to == MemberState::Waiting);
        self.taken -= usize::from(has_slot(from));
        self.taken += usize::from(has_slot(to));
        self.ended -= usize::from(from == MemberState::Ended);
        self.ended += usize::from(to == MemberState::Ended);
    }

    /// Stops the batch: no minion gets its turn any more.
    pub(crate) fn stop(&mut self, why: BatchStop) {
        self.stopped.get_or_insert(why);
        let members = &self.members;
        self.ready.retain(|(_, at)| members[*at].was_granted);
    }

    /// Returns the minions that will not get their turn because the batch was stopped.
    pub(crate) fn left_by_stop(&self) -> Vec<usize> {
        match self.stopped {
            Some(_) => self.never_granted(),
            None => Vec::new(),
        }
    }

    /// Returns the minions that the batch goes on without: those that have let too many turns pass, and those whose turn
    /// cannot come because they are away, when all others have ended. One that was present meanwhile gets the grace time
    /// to come back.
    pub(crate) fn left_behind(&self, now: MasterTime) -> Vec<usize> {
        let passed_over = || self.passed_over.iter().copied().collect();
        if self.taken > 0 || !self.ready.is_empty() || !self.is_looked_at {
            return passed_over();
        }
        let is_late = |member: &Member| {
            let since = member.away.unwrap_or(now);
            since == 0 || since.saturating_add(self.grace) <= now
        };
        let left = self.never_granted();
        let is_left = |at: &usize| self.passed_over.contains(at) || is_late(&self.members[*at]);
        match left.iter().all(is_left) {
            true => left,
            false => passed_over(),
        }
    }

    /// Whether the minion has let so many turns pass that the batch goes on without it.
    pub(crate) fn is_passed_over(&self, at: usize) -> bool {
        self.passed_over.contains(&at)
    }

    /// Returns until when minions that are gone hold the batch up: those that have slots, if all of them are gone; if nobody
    /// has one, those that wait for their turn, if all of these are gone.
    pub(crate) fn grace_ends(&self) -> Option<MasterTime> {
        let in_places = |wanted: fn(MemberState) -> bool| {
            let found = self.members.iter().filter(move |m| wanted(m.place));
            found.map(|member| member.away).collect::<Option<Vec<_>>>()
        };
        let away = match self.taken {
            0 => in_places(|place| place == MemberState::Waiting)?,
            _ => in_places(|place| matches!(place, MemberState::Turn(_) | MemberState::Holding))?,
        };
        // Those that were never present are not waited for.
        let last = away.into_iter().filter(|since| *since > 0).max();
        last.map(|since| since.saturating_add(self.grace))
    }

    fn never_granted(&self) -> Vec<usize> {
        let waits = |member: &Member| {
            matches!(member.place, MemberState::Waiting | MemberState::Turn(_))
                && !member.was_granted
        };
        let members = self.members.iter().enumerate();
        members
            .filter(|(_, member)| waits(member))
            .map(|(at, _)| at)
            .collect()
    }

    /// Returns when the next slot has rested, if one does at `now`.
    pub(crate) fn next_slot(&self, now: MasterTime) -> Option<MasterTime> {
        let rested = self.resting.front().copied();
        let opens = (now < self.opens).then_some(self.opens);
        opens.max(rested)
    }

    /// Returns the settings of the batch.
    pub(crate) fn batch(&self) -> Batch {
        self.batch
    }

    /// Returns why no further minion gets its turn, and which minion's failure is the reason.
    pub(crate) fn stopped(&self) -> Option<(BatchStop, Option<usize>)> {
        self.stopped.map(|why| (why, self.failed))
    }

    /// Whether no minion waits for its turn, and none has a slot.
    pub(crate) fn is_complete(&self) -> bool {
        self.waiting == 0 && self.taken == 0
    }

    /// Returns the numbers of minions by how far they are.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            minions: self.members.len(),
            waiting: self.waiting,
            active: self.taken,
            ended: self.ended,
        }
    }
}

#[cfg(test)]
mod tests;
