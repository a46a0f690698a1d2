//! What is asked for.

use std::fmt;

use saline_messages::{
    CallerRequest, KeyRequest, MinionRequest, OperatorRequest, PendingRequest, RunKind,
    RunnerRequest, TokenRequest,
};

/// A request of any audience.
#[derive(Debug, Clone, Copy)]
pub enum Verb<'a> {
    /// Of somebody who gives orders.
    Operator(&'a OperatorRequest),
    /// Of a minion.
    Minion(&'a MinionRequest),
    /// Of a caller.
    Caller(&'a CallerRequest),
    /// Of a minion whose key is not accepted.
    Pending(&'a PendingRequest),
}

/// What a verb does, as far as a decision about it differs from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Publish a job.
    Publish,
    /// Cancel a job.
    CancelJob,
    /// Read one job, its returns or the states of its minions.
    ReadJob,
    /// Begin a run of a runner on the master.
    BeginRun,
    /// Begin a run of a function about keys or the configuration of the master.
    CallWheel,
    /// Read, end or keep a run that the same principal began.
    OwnRun,
    /// List the keys of minions, and the tokens that let minions in.
    ListKeys,
    /// Accept, reject or delete keys; make or revoke tokens that have keys accepted.
    ChangeKeys,
    /// Ask which minions a target includes.
    MatchTarget,
    /// Ask where minions were seen.
    ReadLastSeen,
    /// Make a new group key.
    RotateGroupKey,
    /// Make the identity that the master's next start takes over.
    RotateIdentity,
    /// Hand in files for the minions of a job: for those who may run `cp.recv` somewhere.
    UploadFiles,
    /// Ask whether the master answers.
    Ping,
    /// Log a user in or out, and act in the name of one who is logged in; what that user may do is decided by itself.
    ActForUsers,
    /// Read events over a session: its own, or all with a rule for that.
    ReadEvents,
    /// Speak as a minion in its own session: report, take jobs, deliver returns, fire events.
    ActAsMinion,
    /// Speak as a caller beside a minion: deliver the return of a call, fire events.
    ActAsCaller,
    /// Ask whether the own key is accepted by now.
    PollOwnKey,
}

impl Action {
    /// Every action, in the order of the table that the tests hold.
    pub const ALL: [Self; 19] = [
        Self::Publish,
        Self::CancelJob,
        Self::ReadJob,
        Self::BeginRun,
        Self::CallWheel,
        Self::OwnRun,
        Self::ListKeys,
        Self::ChangeKeys,
        Self::MatchTarget,
        Self::ReadLastSeen,
        Self::RotateGroupKey,
        Self::RotateIdentity,
        Self::UploadFiles,
        Self::Ping,
        Self::ActForUsers,
        Self::ReadEvents,
        Self::ActAsMinion,
        Self::ActAsCaller,
        Self::PollOwnKey,
    ];

    /// Returns the action of a verb: each stands here, so that one that is added does not compile without a decision.
    pub fn of(verb: Verb<'_>) -> Self {
        use Verb::{Caller, Minion, Operator, Pending};
        match verb {
            Operator(OperatorRequest::Publish(_)) => Self::Publish,
            Operator(OperatorRequest::Cancel { .. }) => Self::CancelJob,
            Operator(OperatorRequest::JobReturns { .. } | OperatorRequest::JobStates { .. }) => {
                Self::ReadJob
            }
            Operator(OperatorRequest::Runner(RunnerRequest::Run(call))) => Self::of_run(call.kind),
            Operator(OperatorRequest::Runner(
                RunnerRequest::Part { .. }
                | RunnerRequest::Kill { .. }
                | RunnerRequest::Keep { .. },
            )) => Self::OwnRun,
            Operator(OperatorRequest::Keys(request)) => Self::of_keys(request),
            Operator(OperatorRequest::MatchTarget { .. }) => Self::MatchTarget,
            Operator(OperatorRequest::LastSeen(_)) => Self::ReadLastSeen,
            Operator(OperatorRequest::RotateGroupKey) => Self::RotateGroupKey,
            Operator(OperatorRequest::Tokens(request)) => Self::of_tokens(request),
            Operator(OperatorRequest::Upload(_)) => Self::UploadFiles,
            Operator(OperatorRequest::Ping) => Self::Ping,
            Operator(
                OperatorRequest::Login(_) | OperatorRequest::Logout(_) | OperatorRequest::ActAs(_),
            ) => Self::ActForUsers,
            Operator(OperatorRequest::Events(_)) => Self::ReadEvents,
            Minion(
                MinionRequest::Poll
                | MinionRequest::Heartbeat(_)
                | MinionRequest::Started(_)
                | MinionRequest::Returns(_)
                | MinionRequest::ReturnPart(_)
                | MinionRequest::Declined { .. }
                | MinionRequest::Claim { .. }
                | MinionRequest::PendingJobs { .. }
                | MinionRequest::FireEvents(_)
                | MinionRequest::Grains(_)
                | MinionRequest::Functions(_)
                | MinionRequest::Files(_)
                | MinionRequest::Pillar(_)
                | MinionRequest::Mine(_)
                | MinionRequest::Reconcile(_)
                | MinionRequest::Accounts(_)
                | MinionRequest::Scheduled(_)
                | MinionRequest::Goodbye(_),
            ) => Self::ActAsMinion,
            Caller(
                CallerRequest::Return(_)
                | CallerRequest::FireEvents(_)
                | CallerRequest::Pillar(_)
                | CallerRequest::Mine(_)
                | CallerRequest::CheckReturners(_),
            ) => Self::ActAsCaller,
            Pending(PendingRequest::Poll) => Self::PollOwnKey,
        }
    }

    /// Returns the action of beginning a run of a function of this kind.
    pub fn of_run(kind: RunKind) -> Self {
        match kind {
            RunKind::Runner => Self::BeginRun,
            RunKind::Wheel => Self::CallWheel,
        }
    }

    /// Returns the action of a request about keys.
    pub fn of_keys(request: &KeyRequest) -> Self {
        match request {
            KeyRequest::List => Self::ListKeys,
            KeyRequest::Act { .. } | KeyRequest::ActOnApis { .. } => Self::ChangeKeys,
            KeyRequest::RotateIdentity => Self::RotateIdentity,
        }
    }

    /// Returns the action of a request about tokens: whoever makes one decides about keys.
    pub fn of_tokens(request: &TokenRequest) -> Self {
        match request {
            TokenRequest::List => Self::ListKeys,
            TokenRequest::Make(_) | TokenRequest::Revoke(_) => Self::ChangeKeys,
        }
    }

    /// Returns the action in words, for people and for the audit file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish a job",
            Self::CancelJob => "cancel a job",
            Self::ReadJob => "read a job",
            Self::BeginRun => "begin a runner",
            Self::CallWheel => "call a wheel function",
            Self::OwnRun => "read or end its own run",
            Self::ListKeys => "list keys",
            Self::ChangeKeys => "change keys",
            Self::MatchTarget => "match a target",
            Self::ReadLastSeen => "ask where minions were seen",
            Self::RotateGroupKey => "rotate the group key",
            Self::RotateIdentity => "rotate the identity of the master",
            Self::UploadFiles => "hand in files for minions",
            Self::Ping => "ping the master",
            Self::ActForUsers => "act for users who log in",
            Self::ReadEvents => "read events",
            Self::ActAsMinion => "act as a minion",
            Self::ActAsCaller => "act as a caller",
            Self::PollOwnKey => "poll for its key",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
