//! The progress of one minion of a job, as far as this client knows.

use saline_messages::{MasterTime, MinionJobState};
use saline_protocol::transport::Instant;

use crate::{Absence, Contact};

/// The progress of one minion of a job.
#[derive(Debug)]
pub(crate) struct MinionProgress {
    pub(crate) state: MinionJobState,
    /// Since when the minion is known to be gone: its connection has ended, or it has been silent for two
    /// heartbeats.
    pub(crate) gone_since: Option<Instant>,
    /// Whether the minion is gone because its machine reboots or shuts down, as was planned.
    pub(crate) is_planned: bool,
    /// Whether the minion is present and does not know the job that it runs.
    pub(crate) is_disputed: bool,
    /// The last expiry that the minion acknowledged, while that is what its state waits for.
    pub(crate) acked_until: Option<MasterTime>,
    /// Whether the minion's return was reported.
    pub(crate) returned: bool,
    /// Whether the minion's absence was reported.
    pub(crate) absent: bool,
    /// Whether the minion gave no sign of life in time. It is reported as absent when the client waits for no other minion.
    pub(crate) given_up: bool,
    /// Whether the minion's turn in a batch has come since minions were given up last.
    pub(crate) is_new: bool,
    /// Whether the minion runs as many jobs as it may at once, so that this one waits there.
    pub(crate) is_busy: bool,
    /// Whether it was reported that the minion is busy.
    pub(crate) busy_reported: bool,
}

impl MinionProgress {
    pub(crate) fn new(state: MinionJobState) -> Self {
        Self {
            state,
            gone_since: None,
            is_planned: false,
            is_disputed: false,
            acked_until: None,
            returned: false,
            absent: false,
            given_up: false,
            is_new: false,
            is_busy: false,
            busy_reported: false,
        }
    }

    /// Whether the minion may still return.
    pub(crate) fn is_open(&self) -> bool {
        // A stored return comes with the next page of the store, though its state is final.
        !self.returned && (!self.state.is_final() || self.state == MinionJobState::Returned)
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        // A minion for which the job is queued may be away for days.
        self.is_open() && !self.given_up && self.state != MinionJobState::Queued
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone_since.is_some()
    }

    /// Whether the minion is waited for and has the job.
    pub(crate) fn is_active(&self) -> bool {
        self.is_waited_for() && self.state != MinionJobState::Waiting
    }

    /// Whether the minion is waited for and its turn in a batch has not come.
    pub(crate) fn is_awaiting_turn(&self) -> bool {
        self.is_waited_for() && self.state == MinionJobState::Waiting
    }

    /// Whether the minion has been offered the job and runs it only when another job has ended.
    pub(crate) fn is_held_by_others(&self) -> bool {
        self.is_busy && self.state == MinionJobState::Offered
    }

    pub(crate) fn is_lacking(&self) -> bool {
        self.state == MinionJobState::Returned && !self.returned
    }

    pub(crate) fn is_unreported(&self) -> bool {
        !self.is_open() && !self.returned && !self.absent
    }

    /// Sets the state. A final state stays, unless the minion is reported late to have begun or returned.
    pub(crate) fn set(&mut self, state: MinionJobState) {
        use MinionJobState::{
            Cancelled, Expired, LostTrack, MayHaveRun, Offered, Queued, Returned, ReturnedAndLost,
            Running, Waiting,
        };
        // States of the time before a minion's turn in a batch may be reported late.
        let is_back = match state {
            Offered => !matches!(self.state, Waiting | Queued),
            Queued | Waiting => self.state != Waiting,
            _ => false,
        };
        if is_back {
            return;
        }
        let is_open = !self.state.is_final();
        let is_truth = matches!(state, Running | ReturnedAndLost)
            && matches!(self.state, Expired | LostTrack | MayHaveRun | Cancelled);
        if is_open || is_truth || state == Returned {
            self.is_new |= self.state == Waiting && state == Offered;
            self.state = state;
        }
        if state == Running {
            self.given_up = false;
        }
    }

    fn contact(&self) -> Contact {
        match (self.is_disputed, self.gone_since) {
            (true, _) => Contact::Disputed,
            (false, Some(_)) if self.is_planned => Contact::PlannedEnd,
            (false, Some(_)) => Contact::Silent,
            (false, None) => Contact::Present,
        }
    }

    pub(crate) fn absence(&self) -> Option<Absence> {
        // `Returned` without a return: the store reports it and never yields it.
        match Absence::of(self.state, self.contact()) {
            Some(Absence::Unconfirmed { .. }) => Some(Absence::Unconfirmed {
                since: self.acked_until,
            }),
            told => told.or(Some(Absence::NotDelivered)),
        }
    }
}
