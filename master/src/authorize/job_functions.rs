//! The functions of minions that show or end jobs, which know nothing of owners: the master decides whose jobs they reach.

use saline_messages::{Jid, MinionId, PackedArguments};

/// What a function of minions does with jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobFunction {
    /// Shows all jobs that a minion runs, or has kept.
    ShowsAll,
    /// Shows one job.
    ShowsOne,
    /// Sends a signal to one job.
    Signals,
}

/// A job that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressedJob {
    /// Who ordered it, by [`Principal::owner`](super::Principal::owner).
    pub(crate) owner: String,
    /// Its minions, sorted.
    pub(crate) minions: Vec<MinionId>,
}

impl JobFunction {
    /// Returns what the function does with jobs; none if it does not reach jobs.
    pub(crate) fn of(fun: &str) -> Option<Self> {
        match fun {
            "saltutil.running" => Some(Self::ShowsAll),
            "saltutil.find_job" | "saltutil.refused_returns" => Some(Self::ShowsOne),
            "saltutil.signal_job" | "saltutil.term_job" | "saltutil.kill_job" => {
                Some(Self::Signals)
            }
            _ => None,
        }
    }

    /// Returns what somebody may not do who does not see the jobs of others.
    pub(super) fn refused(self, fun: &str) -> String {
        match self {
            Self::ShowsAll => format!(
                "run {fun}, which shows the jobs of others: that takes @all (saline-run jobs.active shows its own jobs)"
            ),
            Self::ShowsOne | Self::Signals => format!(
                "run {fun} but with the id of a job of its own (saline-run jobs.list_jobs shows those)"
            ),
        }
    }
}

impl AddressedJob {
    /// Returns the id of the job that a call of a minion's function names; none if the function reaches no job by its
    /// id, or if the arguments name none, or more than one, that the master can read.
    pub(crate) fn jid(fun: &str, arguments: &PackedArguments) -> Option<Jid> {
        if !matches!(
            JobFunction::of(fun)?,
            JobFunction::ShowsOne | JobFunction::Signals
        ) {
            return None;
        }
        let arguments = arguments.unpack().ok()?;
        let named = arguments.named.iter().filter(|(name, _)| name == "jid");
        let mut values = named
            .map(|(_, value)| value)
            .chain(arguments.positional.first());
        match (values.next(), values.next()) {
            (Some(value), None) => Jid::parse(&shown(value)).ok(),
            _ => None,
        }
    }

    /// Whether the job has all of these minions.
    pub(crate) fn has_all(&self, minions: &[MinionId]) -> bool {
        minions.iter().all(|id| self.has(id))
    }

    /// Whether the job has this minion.
    pub(crate) fn has(&self, minion: &MinionId) -> bool {
        self.minions.binary_search(minion).is_ok()
    }
}

/// Returns the text of an argument that patterns are about: of a list or a mapping its JSON.
pub(super) fn shown(value: &saline_data::Value) -> String {
    use saline_data::Value;
    match value {
        Value::Text(text) => text.clone(),
        Value::List(_) | Value::Map(_) | Value::Bytes(_) => {
            String::from_utf8_lossy(&saline_data::json::line(value)).into_owned()
        }
        other => saline_data::yaml::as_key(other.clone()),
    }
}
