//! What the minion tells of a running job.

use saline_data::Value;
use saline_messages::{Jid, Job};

/// A running job, as `saltutil.running` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningJob {
    /// The job's id.
    pub jid: Jid,
    /// The function.
    pub fun: String,
    /// The arguments, in Salt's form.
    pub arg: Value,
    /// The target expression.
    pub target: String,
    /// The kind of the target.
    pub target_kind: &'static str,
    /// The user who asked.
    pub user: String,
    /// The job's own process if it has one, or that of its command while one runs, otherwise the minion's.
    pub pid: u32,
}

impl RunningJob {
    /// Describes `job`.
    pub fn of(job: &Job) -> Self {
        Self {
            jid: job.jid.clone(),
            fun: job.fun.clone(),
            arg: job.arg.as_packed().unpack().unwrap_or_default(),
            target: job.target.expression.clone(),
            target_kind: job.target.kind.name(),
            user: job.user.clone(),
            pid: std::process::id(),
        }
    }

    /// Describes a function that the minion runs by itself.
    pub(crate) fn of_the_minion(fun: &str) -> Self {
        Self {
            jid: Jid::parse("00000000000000000000").expect("twenty digits are a jid"),
            fun: fun.to_owned(),
            arg: Value::List(Vec::new()),
            target: String::new(),
            target_kind: "list",
            user: String::new(),
            pid: std::process::id(),
        }
    }

    /// Describes a job for a test.
    #[cfg(test)]
    pub(crate) fn example(jid: &str) -> Self {
        Self {
            // A malformed jid is a mistake in the test.
            jid: Jid::parse(jid).unwrap(),
            fun: "test.sleep".to_owned(),
            arg: Value::List(vec![Value::Int(600)]),
            target: "*".to_owned(),
            target_kind: "glob",
            user: "root".to_owned(),
            pid: std::process::id(),
        }
    }

    /// Returns Salt's mapping.
    pub fn to_value(&self) -> Value {
        Value::map([
            ("arg", self.arg.clone()),
            ("fun", Value::from(self.fun.as_str())),
            ("jid", Value::from(self.jid.as_str())),
            ("pid", Value::from(u64::from(self.pid))),
            ("ret", Value::from("")),
            ("tgt", Value::from(self.target.as_str())),
            ("tgt_type", Value::from(self.target_kind)),
            ("user", Value::from(self.user.as_str())),
        ])
    }
}
