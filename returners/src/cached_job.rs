//! Jobs and returns as a database outside has them.
//!
//! What is read is in pages of bounded size: a database keeps jobs for as long as its operator likes.

use saline_data::{Value, json};

/// The most jobs or returns of a page.
pub(crate) const PAGE_ROWS: i64 = 500;

/// The bytes of JSON from which a page ends.
pub(crate) const PAGE_BYTES: i64 = 8 * 1024 * 1024;

/// A job as a database has it.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedJob {
    /// The jid of the job.
    pub jid: String,
    /// The function.
    pub fun: String,
    /// The arguments, in the form of Salt's events.
    pub arg: Value,
    /// The target expression.
    pub target: String,
    /// Salt's name of the kind of the target.
    pub target_kind: String,
    /// The user who asked, as the operator's program said.
    pub user: String,
    /// The operator by the name of its key; empty if the database does not say.
    pub operator: String,
    /// The ids of the minions.
    pub minions: Vec<String>,
}

/// The return of a minion as a database has it.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedReturn {
    /// The id of the minion.
    pub minion: String,
    /// What the function returned, or why the database does not say.
    pub value: Result<Value, NoValue>,
    /// The exit code.
    pub retcode: i64,
    /// Whether the function succeeded.
    pub success: bool,
}

/// Why a database has a return without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoValue {
    /// The value was too large to be delivered.
    #[error("it was too large")]
    TooLarge,
    /// Something else than this master wrote the row.
    #[error("what the row of this return has in its place is no JSON")]
    Unreadable,
}

/// Reads the value of a return, which is NULL where it was too large.
pub(crate) fn read_value(text: Option<&str>) -> Result<Value, NoValue> {
    read_json(text.ok_or(NoValue::TooLarge)?).ok_or(NoValue::Unreadable)
}

/// Reads JSON of a database, where anybody may have written it.
pub(crate) fn read_json(text: &str) -> Option<Value> {
    json::read(text.as_bytes()).ok()
}

/// Reads a list of ids.
pub(crate) fn read_ids(value: Option<&Value>) -> Vec<String> {
    let Some(Value::List(ids)) = value else {
        return Vec::new();
    };
    let ids = ids.iter().filter_map(Value::as_str);
    ids.map(str::to_owned).collect()
}
