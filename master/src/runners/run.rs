//! The run of a function, as the function sees it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use saline_functions::{BoundArguments, Context, Failure};
use saline_messages::{Jid, MinionId};
use saline_protocol::transport::Instant;
use saline_targeting::Target;

use super::parts::RunnerParts;
use super::run_table::RunTable;
use super::{MasterFunctions, Returned};
use crate::authorize::{About, Action, Principal, Reached};
use crate::decisions::Details;

/// The largest number of notes of one run.
const MAX_NOTES: usize = 1_000;

/// One run of a function.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) jid: Jid,
    /// Who began the run.
    pub(super) principal: Principal,
    /// The user who asks, as the operator's program says.
    pub(super) user: String,
    /// The time at which the run is ended if it is not done.
    pub(super) deadline: Instant,
    pub(super) parts: Arc<RunnerParts>,
    /// All runs of the master.
    pub(super) table: Arc<RunTable>,
    /// All functions of the master.
    pub(super) functions: Arc<MasterFunctions>,
    notes: Mutex<Vec<String>>,
}

impl Context for Run {
    type Returned = Returned;
    type Code = for<'a> fn(&'a Run, BoundArguments) -> Working<'a>;
}

/// A function at work.
pub(super) type Working<'a> = Pin<Box<dyn Future<Output = Result<Returned, Failure>> + Send + 'a>>;

impl Run {
    pub(super) fn new(
        jid: Jid,
        (principal, user): (Principal, String),
        deadline: Instant,
        parts: Arc<RunnerParts>,
        table: Arc<RunTable>,
        functions: Arc<MasterFunctions>,
    ) -> Self {
        Self {
            jid,
            principal,
            user,
            deadline,
            parts,
            table,
            functions,
            notes: Mutex::default(),
        }
    }

    /// Notes a line that the operator is told beside the return.
    pub(super) fn note(&self, line: impl Into<String>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < MAX_NOTES {
            notes.push(line.into());
        }
    }

    /// Takes the notes.
    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the principal sees what others ordered.
    pub(super) fn sees_all(&self) -> bool {
        self.parts.authorizer.sees_all(&self.principal)
    }

    /// Whether the principal sees what this owner ordered.
    pub(super) fn sees(&self, owner: &str) -> bool {
        self.sees_all() || self.principal.owner() == owner
    }

    /// Refuses a principal that does not see what others ordered: `fun` tells of all orders.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn check_sees_all(&self, fun: &str) -> Result<(), Failure> {
        match self.sees_all() {
            true => Ok(()),
            false => Err(Failure::Execution(format!(
                "{} may not run {fun}, which is about what others ordered: run it as root, or as a user who has @all in the master's \
                 configuration",
                self.principal
            ))),
        }
    }

    /// Refuses a job or a run of another owner.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn check_owner(&self, owner: &str) -> Result<(), Failure> {
        let about = About::Owner(owner);
        let authorizer = &self.parts.authorizer;
        let decided = authorizer.authorize(&self.principal, Action::ReadJob, about);
        decided
            .map(drop)
            .map_err(|refusal| Failure::Execution(refusal.line))
    }

    /// Refuses a job of another owner.
    ///
    /// # Errors
    /// The refusal, or that the store fails.
    pub(super) async fn check_job(&self, jid: &Jid) -> Result<(), Failure> {
        if self.sees_all() {
            return Ok(());
        }
        match self.parts.jobs.owner(jid).await? {
            Some(owner) => self.check_owner(&owner),
            None => Ok(()),
        }
    }

    /// Refuses minions about which the principal has no rule, with a line in the audit file: the rule that lets it run
    /// this function names none.
    ///
    /// # Errors
    /// The refusal.
    pub(super) async fn check_minions(
        &self,
        target: &Target,
        minions: &[MinionId],
    ) -> Result<(), Failure> {
        if self.sees_all() {
            return Ok(());
        }
        let details = Details {
            target: Some(target),
            minions: Some(minions),
            subject: Some(format!("runner {}", self.jid)),
            ..Details::default()
        };
        let about = About::Minions(Reached::by(target, minions));
        let decisions = &self.parts.publish.decisions;
        let decided = decisions.decide(&self.principal, Action::MatchTarget, about, details);
        match decided.await {
            Ok(decided) => {
                decided.synced().await;
                Ok(())
            }
            Err(why) => Err(Failure::Execution(why)),
        }
    }

    /// Fires `salt/run/<jid>/progress`, and notes the same line.
    pub(super) async fn tell_progress(&self, line: &str) {
        let owner = self.principal.owner();
        let events = &self.parts.events;
        events.run_progress(&self.jid, &owner, line).await;
        self.note(line);
    }

    /// Whether the minion is present and has spoken within two heartbeats.
    pub(super) fn is_alive(&self, minion: &MinionId) -> bool {
        self.parts.sessions.alive(minion).is_some()
    }
}
