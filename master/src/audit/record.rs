//! What a line of the audit file says.

use std::time::SystemTime;

use aws_lc_rs::digest::{SHA256, digest};
use saline_data::{Value, json};
use saline_messages::{MinionId, PackedArguments, RequestId};
use saline_targeting::Target;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::suppressed_lines::Suppressed;

/// The largest number of minions that a line names. Of more it has the number and a digest of all.
const NAMED: usize = 64;

/// The longest text of others in a line, in bytes. Of a longer one it has the beginning and a digest.
const MAX_TEXT: usize = 1024;

/// What a decision is about.
#[derive(Debug, Default)]
pub(crate) struct Details<'a> {
    /// The function.
    pub(crate) function: Option<&'a str>,
    /// The arguments, of which the line has a digest alone.
    pub(crate) arguments: Option<&'a PackedArguments>,
    /// The target as it was given, of which the line has no values of pillars.
    pub(crate) target: Option<&'a Target>,
    /// The minions that it is about.
    pub(crate) minions: Option<&'a [MinionId]>,
    /// The job that is published or cancelled, the run that is ended, the user who logs in or out, the files that are handed in, the
    /// change that is made to keys, or the tag of the event that a hook fires.
    pub(crate) subject: Option<String>,
    /// The request, so that a repeated one shows as one.
    pub(crate) request: Option<RequestId>,
}

/// A decision, as it becomes a line.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    /// The principal that asked, as people read it.
    pub(crate) principal: String,
    /// What was asked for.
    pub(crate) action: &'a str,
    /// What it is about.
    pub(crate) details: Details<'a>,
    /// The decision.
    pub(crate) outcome: Outcome<'a>,
    /// Whether it is carried out also when the line cannot be written. Such lines are counted as missing.
    pub(crate) goes_on_without: bool,
}

/// What a line says, by the names of its parts.
pub(super) type Entries = Vec<(&'static str, Value)>;

/// Returns the line with these entries, and its line break. `missing` lines of what was carried out could not be written
/// before it.
pub(super) fn line(mut entries: Entries, missing: u64) -> Vec<u8> {
    if missing > 0 {
        let count = i64::try_from(missing).unwrap_or(i64::MAX);
        entries.push(("lines_missing", Value::Int(count)));
    }
    let mut line = json::line(&Value::map(entries));
    line.push(b'\n');
    line
}

/// A decision, with the rule that decided.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome<'a> {
    /// It was allowed.
    Allowed {
        /// The rule that decided.
        rule: &'a str,
    },
    /// It was refused.
    Refused {
        /// The rule, or the one that is missing.
        rule: &'a str,
    },
}

impl Record<'_> {
    /// Returns the line, of a decision before which none was left out.
    pub(crate) fn line(&self, now: SystemTime) -> Vec<u8> {
        line(self.entries(now, Suppressed::default()), 0)
    }

    /// Whether nothing follows from the decision: it is a refusal, or an order that reaches no minion.
    pub(super) fn has_no_effect(&self) -> bool {
        let reaches_nobody = self
            .details
            .minions
            .is_some_and(|minions| minions.is_empty());
        reaches_nobody || matches!(self.outcome, Outcome::Refused { .. })
    }

    /// Returns the entries of the line. It tells of decisions without an effect that had none.
    pub(super) fn entries(&self, now: SystemTime, suppressed: Suppressed) -> Entries {
        let time = OffsetDateTime::from(now).format(&Rfc3339);
        let mut entries = vec![
            // It has a format for every time that a machine can have.
            ("time", Value::from(time.unwrap_or_default())),
            ("principal", Value::from(bounded(&self.principal))),
            ("action", Value::from(self.action)),
        ];
        if let Some(function) = self.details.function {
            entries.push(("function", Value::from(bounded(function))));
        }
        if let Some(arguments) = self.details.arguments {
            let shown = sha256(arguments.as_packed().as_bytes());
            entries.push(("arguments", Value::from(shown)));
        }
        if let Some(target) = self.details.target {
            entries.push(("target_kind", Value::from(target.kind.name())));
            entries.push(("target", Value::from(bounded(&target.masked()))));
        }
        if let Some(minions) = self.details.minions {
            let named = minions.iter().take(NAMED).map(MinionId::as_str);
            entries.push(("minions", Value::texts(named)));
            let count = i64::try_from(minions.len()).unwrap_or(i64::MAX);
            entries.push(("minion_count", Value::Int(count)));
            if minions.len() > NAMED {
                let all: Vec<&str> = minions.iter().map(MinionId::as_str).collect();
                let shown = sha256(all.join("\n").as_bytes());
                entries.push(("minions_digest", Value::from(shown)));
            }
        }
        if let Some(subject) = &self.details.subject {
            entries.push(("subject", Value::from(bounded(subject))));
        }
        if let Some(request) = self.details.request {
            entries.push(("request", Value::from(hex(&request.0))));
        }
        let (decision, rule) = match self.outcome {
            Outcome::Allowed { rule } => ("allowed", rule),
            Outcome::Refused { rule } => ("refused", rule),
        };
        entries.push(("decision", Value::from(decision)));
        entries.push(("rule", Value::from(bounded(rule))));
        for (name, count) in [
            ("lines_suppressed", suppressed.own),
            ("lines_suppressed_of_others", suppressed.of_others),
        ] {
            if count > 0 {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                entries.push((name, Value::Int(count)));
            }
        }
        entries
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(digest(&SHA256, bytes).as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a text as it is, or its beginning and its digest.
fn bounded(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let beginning = &text[..text.floor_char_boundary(MAX_TEXT)];
    format!("{beginning}... ({})", sha256(text.as_bytes()))
}
