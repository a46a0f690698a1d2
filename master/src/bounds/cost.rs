//! What each request of a minion or of a caller costs.

use saline_messages::{
    CallerRequest, CallerReturn, FileRequest, Jid, MineRequest, MinionEvent, MinionEvents,
    MinionRequest, PackedArguments, PillarRequest, ScheduledReturn,
};

use super::account_limits::Resource;

/// What a page of a listing costs, in parts of files: it may make the master read all folders of an environment.
const LISTING: usize = 20;

/// What a request takes from the account of its minion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    amounts: [u64; Resource::ALL.len()],
    /// The jobs that the minion says it has begun, which are open from then on.
    pub(super) begins: usize,
}

impl Cost {
    /// Returns the cost of a minion's request of so many bytes. `closed` tells how many of some jobs are under way no
    /// more.
    pub(crate) fn of_minion(
        request: &MinionRequest,
        bytes: usize,
        closed: impl FnOnce(&[&Jid]) -> usize,
    ) -> Self {
        let jobs = jobs_named(request);
        let mut cost = Self::of_bytes(bytes);
        cost.add(Resource::Rows, jobs.len().max(1));
        if !jobs.is_empty() {
            cost.add(Resource::ClosedJobs, closed(&jobs));
        }
        match request {
            MinionRequest::Poll
            | MinionRequest::Heartbeat(_)
            | MinionRequest::Declined { .. }
            | MinionRequest::PendingJobs { .. } => {}
            MinionRequest::Started(jids) => cost.begins = jids.len(),
            MinionRequest::Returns(_)
            | MinionRequest::Accounts(_)
            | MinionRequest::Claim { .. } => {
                cost.add(Resource::Syncs, 1);
            }
            MinionRequest::ReturnPart(_) => {
                cost.add(Resource::Parts, 1);
                cost.add(Resource::Syncs, 1);
            }
            MinionRequest::FireEvents(events) => cost.add_events(events),
            MinionRequest::Scheduled(returned) => cost.add_scheduled(returned),
            MinionRequest::Goodbye(_) => cost.add(Resource::Presences, 1),
            MinionRequest::Reconcile(_) => {
                cost.add(Resource::Presences, 1);
                cost.add(Resource::Syncs, 1);
            }
            MinionRequest::Grains(report) => {
                cost.add(Resource::Grains, usize::from(report.grains.is_some()));
            }
            MinionRequest::Functions(report) => {
                cost.add(Resource::Functions, usize::from(report.functions.is_some()));
            }
            MinionRequest::Files(FileRequest::List { .. }) => {
                cost.add(Resource::Files, LISTING);
            }
            MinionRequest::Files(_) => cost.add(Resource::Files, 1),
            MinionRequest::Pillar(request) => cost.add_pillar(request),
            MinionRequest::Mine(request) => cost.add_mine(request),
        }
        cost
    }

    /// Returns the cost of a caller's request of so many bytes.
    pub(crate) fn of_caller(request: &CallerRequest, bytes: usize) -> Self {
        let mut cost = Self::of_bytes(bytes);
        match request {
            CallerRequest::Return(returned) => cost.add_call(returned),
            CallerRequest::FireEvents(events) => {
                cost.add(Resource::Rows, 1);
                cost.add_events(events);
            }
            CallerRequest::Pillar(request) => {
                cost.add(Resource::Rows, 1);
                cost.add_pillar(request);
            }
            CallerRequest::Mine(request) => {
                cost.add(Resource::Rows, 1);
                cost.add_mine(request);
            }
            CallerRequest::CheckReturners(_) => {}
        }
        cost
    }

    /// Returns the cost of the bytes of a request, which is all that one costs that cannot be decoded.
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        let mut cost = Self::default();
        cost.add(Resource::BytesIn, bytes);
        // Nothing is taken for the answer before its size is known, but no debt may be left of those before it.
        cost.add(Resource::BytesOut, 1);
        cost
    }

    /// Returns how much of a resource it takes.
    pub(super) fn of(&self, resource: Resource) -> u64 {
        self.amounts[resource as usize]
    }

    fn add(&mut self, resource: Resource, amount: usize) {
        self.amounts[resource as usize] += amount as u64;
    }

    fn add_call(&mut self, called: &CallerReturn) {
        let payload = called.payload.as_bytes().len();
        self.add_stored(&called.fun, &called.arg, payload);
    }

    fn add_scheduled(&mut self, returned: &ScheduledReturn) {
        let part = &returned.part;
        // With the last part, which alone makes it a return: one before it may be sent again.
        let payload = match part.end() == Some(part.total) {
            true => usize::try_from(part.total).unwrap_or(usize::MAX),
            false => 0,
        };
        self.add_stored(&returned.run.fun, &returned.run.arg, payload);
        self.add(Resource::Parts, 1);
    }

    /// Adds a job for which nobody asked, and its return.
    fn add_stored(&mut self, fun: &str, arg: &PackedArguments, payload: usize) {
        self.add(Resource::Rows, 2);
        self.add(Resource::Syncs, 1);
        self.add(Resource::Calls, 1);
        let bytes = fun.len() + arg.as_packed().as_bytes().len() + payload;
        self.add(Resource::CallBytes, bytes);
    }

    fn add_pillar(&mut self, request: &PillarRequest) {
        match request {
            PillarRequest::Compile { .. } => self.add(Resource::Pillars, 1),
            // It is in memory, and costs its bytes.
            PillarRequest::Part { .. } => {}
        }
    }

    fn add_mine(&mut self, request: &MineRequest) {
        self.add(Resource::MineRequests, 1);
        self.add(Resource::MineBytes, request.stored_bytes());
        match request {
            MineRequest::Store(_) | MineRequest::Delete(_) | MineRequest::Flush => {
                self.add(Resource::Syncs, 1);
            }
            MineRequest::Offer { .. } | MineRequest::Get { .. } => {}
        }
    }

    fn add_events(&mut self, events: &MinionEvents) {
        let size = |event: &MinionEvent| event.tag.len() + event.data.as_bytes().len();
        self.add(Resource::Events, events.events.len());
        self.add(Resource::EventBytes, events.events.iter().map(size).sum());
    }
}

/// Returns the jobs that a request names.
fn jobs_named(request: &MinionRequest) -> Vec<&Jid> {
    match request {
        MinionRequest::Heartbeat(said) => said.running.iter().collect(),
        MinionRequest::Started(jids) => jids.iter().collect(),
        MinionRequest::Returns(returns) => returns.iter().map(|returned| &returned.jid).collect(),
        MinionRequest::ReturnPart(part) => vec![&part.jid],
        MinionRequest::Declined { jid } | MinionRequest::Claim { jid } => vec![jid],
        MinionRequest::Accounts(accounts) => accounts.iter().map(|account| &account.jid).collect(),
        MinionRequest::Reconcile(said) => {
            let accounts = said.accounts.iter().map(|account| &account.jid);
            said.heartbeat.running.iter().chain(accounts).collect()
        }
        MinionRequest::Poll
        | MinionRequest::PendingJobs { .. }
        | MinionRequest::FireEvents(_)
        | MinionRequest::Goodbye(_)
        | MinionRequest::Scheduled(_)
        | MinionRequest::Grains(_)
        | MinionRequest::Functions(_)
        | MinionRequest::Files(_)
        | MinionRequest::Pillar(_)
        | MinionRequest::Mine(_) => Vec::new(),
    }
}
