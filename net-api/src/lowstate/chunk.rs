//! One chunk of a request: the options of a call.

use std::collections::HashSet;
use std::time::Duration;

use saline_client::data::Value;
use saline_client::messages::{BatchSize, NetapiClient};
use saline_client::targeting::{CompiledTarget, Target, TargetError, TargetKind, TargetProblem};

use crate::error::ApiError;

/// The longest time that a chunk may ask for.
const LONGEST_TIME: f64 = 365.0 * 86_400.0;

/// A chunk.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    entries: Vec<(String, Value)>,
}

impl Chunk {
    /// Takes the entries of a chunk.
    ///
    /// # Errors
    /// `BadRequest` when a name occurs twice: two readers would take different ones.
    pub(crate) fn new(entries: Vec<(String, Value)>) -> Result<Self, ApiError> {
        let mut names = HashSet::new();
        match entries.iter().find(|(name, _)| !names.insert(name)) {
            Some((twice, _)) => Err(bad(format!("{twice:?} is given twice"))),
            None => Ok(Self { entries }),
        }
    }

    /// Returns the entry of that name, unless it is null.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        let found = self.entries.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value)
            .filter(|value| **value != Value::Null)
    }

    /// Returns all entries.
    pub(crate) fn entries(&self) -> &[(String, Value)] {
        &self.entries
    }

    /// Returns an entry that is a text; none where it is absent or empty.
    ///
    /// # Errors
    /// `BadRequest` when it is something else.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Text(text)) if text.is_empty() => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(bad(format!(
                "{name} has to be a text, not {}",
                kind_of(other)
            ))),
        }
    }

    /// Returns an entry that is a truth value, as a form writes it too.
    ///
    /// # Errors
    /// `BadRequest` when it is something else.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        self.get(name).map_or(Ok(false), |value| flag(name, value))
    }

    /// Returns an entry that is a time in seconds.
    ///
    /// # Errors
    /// `BadRequest` when it is no number of seconds.
    pub(crate) fn seconds(&self, name: &str) -> Result<Option<Duration>, ApiError> {
        let seconds = match self.get(name) {
            None => return Ok(None),
            Some(Value::Text(text)) if text.is_empty() => return Ok(None),
            Some(Value::Int(seconds)) => Some(*seconds as f64),
            Some(Value::Float(seconds)) => Some(*seconds),
            Some(Value::Text(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        match seconds.filter(|seconds| (0.0..=LONGEST_TIME).contains(seconds)) {
            Some(seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
            None => Err(bad(format!("{name} has to be a number of seconds"))),
        }
    }

    /// Returns an entry that is a number of minions.
    ///
    /// # Errors
    /// `BadRequest` when it is none.
    pub(crate) fn minions(&self, name: &str) -> Result<Option<u32>, ApiError> {
        let number = match self.get(name) {
            None => return Ok(None),
            Some(Value::Int(number)) => u32::try_from(*number).ok(),
            Some(Value::Text(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        match number.filter(|number| *number > 0) {
            Some(number) => Ok(Some(number)),
            None => Err(bad(format!("{name} has to be a number of minions"))),
        }
    }

    /// Returns the size of a batch, if the chunk asks for one. Clients send null or an empty text where they want none.
    ///
    /// # Errors
    /// `BadRequest` when it is no size.
    pub(crate) fn batch(&self) -> Result<Option<BatchSize>, ApiError> {
        let size = match self.get("batch") {
            None | Some(Value::Bool(false)) => return Ok(None),
            Some(Value::Text(text)) if text.is_empty() => return Ok(None),
            Some(Value::Int(number)) => u32::try_from(*number).ok().map(BatchSize::Minions),
            Some(Value::Text(text)) => match text.trim().strip_suffix('%') {
                Some(percent) => percent.parse().ok().map(BatchSize::Percent),
                None => text.trim().parse().ok().map(BatchSize::Minions),
            },
            Some(_) => None,
        };
        let size = size.filter(|size| match size {
            BatchSize::Minions(number) => *number > 0,
            BatchSize::Percent(percent) => (1..=100).contains(percent),
        });
        let refusal = || bad("batch has to be a number of minions, or 1% to 100%".to_owned());
        size.map(Some).ok_or_else(refusal)
    }

    /// Returns the client that the chunk is for.
    ///
    /// # Errors
    /// `BadRequest` when it names none.
    pub(crate) fn client(&self) -> Result<NetapiClient, ApiError> {
        let name = self.text("client")?;
        let name = name.ok_or_else(|| bad("client is missing, such as local".to_owned()))?;
        let found = NetapiClient::parse(name);
        found.ok_or_else(|| {
            let known: Vec<&str> = NetapiClient::ALL
                .iter()
                .map(|client| client.name())
                .collect();
            bad(format!(
                "there is no client {name:?}; there are {}",
                known.join(", ")
            ))
        })
    }

    /// Returns the name of the function.
    ///
    /// # Errors
    /// `BadRequest` when there is none.
    pub(crate) fn function(&self) -> Result<&str, ApiError> {
        let name = self.text("fun")?;
        name.ok_or_else(|| bad("fun is missing: the function, such as test.ping".to_owned()))
    }

    /// Checks that the chunk names a client and a function.
    ///
    /// # Errors
    /// `BadRequest` when it does not.
    pub(crate) fn check_call(&self) -> Result<(), ApiError> {
        let is_job = matches!(
            self.client()?,
            NetapiClient::Local
                | NetapiClient::LocalAsync
                | NetapiClient::LocalBatch
                | NetapiClient::LocalSubset
        );
        match self.get("fun") {
            // A job may have several functions.
            Some(Value::List(_)) if is_job => Ok(()),
            _ => self.function().map(drop),
        }
    }

    /// Returns the target of a job. `expr_form` is the older name of `tgt_type`.
    ///
    /// # Errors
    /// `BadRequest` when there is none, or it is malformed.
    pub(crate) fn target(&self) -> Result<CompiledTarget, ApiError> {
        let kind = match (self.text("tgt_type")?, self.text("expr_form")?) {
            (Some(kind), Some(other)) if kind != other => {
                return Err(bad(
                    "tgt_type and expr_form contradict each other".to_owned()
                ));
            }
            (Some(kind), _) | (None, Some(kind)) => {
                let known = TargetKind::from_name(kind);
                Some(known.ok_or_else(|| bad(format!("there is no tgt_type {kind:?}")))?)
            }
            (None, None) => None,
        };
        let (expression, default) = match self.get("tgt") {
            Some(Value::Text(expression)) => (expression.clone(), TargetKind::Glob),
            Some(Value::List(ids)) => {
                let ids: Option<Vec<&str>> = ids.iter().map(Value::as_str).collect();
                let ids =
                    ids.ok_or_else(|| bad("tgt has to be a text, or a list of ids".to_owned()))?;
                (ids.join(","), TargetKind::List)
            }
            None => return Err(bad("tgt is missing: the minions, such as *".to_owned())),
            Some(other) => {
                return Err(bad(format!(
                    "tgt has to be a text, or a list of ids, not {}",
                    kind_of(other)
                )));
            }
        };
        let kind = kind.unwrap_or(default);
        let delimiter = match self.text("delimiter")? {
            None => ':',
            Some(text) => {
                let mut characters = text.chars();
                match (characters.next(), characters.next()) {
                    (Some(one), None) => one,
                    _ => return Err(bad("delimiter has to be one character".to_owned())),
                }
            }
        };
        let target = Target::with_delimiter(kind, expression, delimiter);
        target.compile().map_err(|error| bad(why_refused(&error)))
    }
}

/// Returns why a target is refused. What commands call options are fields here.
fn why_refused(error: &TargetError) -> String {
    match &error.problem {
        TargetProblem::Compound { expression, .. } => format!(
            "`{}` is a compound target, and no glob: POST a chunk that has tgt_type compound",
            expression.escape_debug()
        ),
        _ => error.to_string(),
    }
}

/// Returns what a value is, without what it holds, which may be a password.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => "a number",
        Value::Text(_) => "a text",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "a list",
        Value::Map(_) => "a mapping",
    }
}

fn bad(why: String) -> ApiError {
    ApiError::BadRequest(why)
}

/// Reads what is true or false. Forms and pepper have texts alone for that.
///
/// # Errors
/// When it is neither.
fn flag(name: &str, value: &Value) -> Result<bool, ApiError> {
    let read = match value {
        Value::Bool(flag) => Some(*flag),
        Value::Int(number) => Some(*number != 0),
        Value::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" | "" => Some(false),
            _ => None,
        },
        _ => None,
    };
    read.ok_or_else(|| bad(format!("{name} has to be true or false")))
}
