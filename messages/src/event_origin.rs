//! The origin of an event: the party that caused it. The master sets it outside of the data, so that nothing that a minion
//! or an operator puts into the data can pass for it.

use std::fmt;

use saline_data::Value;

use crate::{Jid, MinionId, SessionId};

/// The kind of party that caused an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OriginKind {
    /// The master itself.
    Master,
    /// A minion.
    Minion,
    /// A program beside a minion that has its key: `saline-call`.
    Caller,
    /// An operator with a key.
    Operator,
    /// A user of the master's machine without a key.
    LocalUser,
    /// A user who logged in.
    ExternalUser,
    /// A function that runs on the master.
    Runner,
    /// The schedule of the master.
    Schedule,
    /// A file of the reactor.
    Reaction,
    /// A host of the HTTP API, in its own name.
    Api,
    /// A kind that this version does not know.
    Unknown,
}

impl OriginKind {
    /// Every kind that a master of this version sets.
    const ALL: [Self; 10] = [
        Self::Master,
        Self::Minion,
        Self::Caller,
        Self::Operator,
        Self::LocalUser,
        Self::ExternalUser,
        Self::Runner,
        Self::Schedule,
        Self::Reaction,
        Self::Api,
    ];

    /// Returns the name of the kind in an event.
    pub fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Minion => "minion",
            Self::Caller => "caller",
            Self::Operator => "operator",
            Self::LocalUser => "local_user",
            Self::ExternalUser => "external_user",
            Self::Runner => "runner",
            Self::Schedule => "schedule",
            Self::Reaction => "reaction",
            Self::Api => "api",
            Self::Unknown => "unknown",
        }
    }

    fn parse(name: &str) -> Self {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.unwrap_or(Self::Unknown)
    }
}

/// The party that caused an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventOrigin {
    /// The kind of the party.
    pub kind: OriginKind,
    /// The minion's id, the name of the operator, the API, the user or the job of a schedule, the jid of the run, or the path of the reaction's
    /// file; empty for the
    /// master.
    pub id: String,
    /// The session in which the party caused the event; none when it used none, or the master does not keep it.
    pub session: Option<SessionId>,
}

impl EventOrigin {
    /// Returns the origin of what the master does by itself.
    pub fn master() -> Self {
        Self::of(OriginKind::Master, "")
    }

    /// Returns the origin of what a minion does.
    pub fn minion(id: &MinionId) -> Self {
        Self::of(OriginKind::Minion, id.as_str())
    }

    /// Returns the origin of what a program beside this minion does, with its key.
    pub fn caller(id: &MinionId) -> Self {
        Self::of(OriginKind::Caller, id.as_str())
    }

    /// Returns the origin of what an operator does.
    pub fn operator(name: &str) -> Self {
        Self::of(OriginKind::Operator, name)
    }

    /// Returns the origin of what a user of the master's machine does, by the user's name.
    pub fn local_user(name: &str) -> Self {
        Self::of(OriginKind::LocalUser, name)
    }

    /// Returns the origin of what a user does who logged in, by the user's name.
    pub fn external_user(name: &str) -> Self {
        Self::of(OriginKind::ExternalUser, name)
    }

    /// Returns the origin of what a job of the master's schedule does, by its name.
    pub fn schedule(name: &str) -> Self {
        Self::of(OriginKind::Schedule, name)
    }

    /// Returns the origin of what a file of the reactor does, by its path.
    pub fn reaction(file: &str) -> Self {
        Self::of(OriginKind::Reaction, file)
    }

    /// Returns the origin of what an API does in its own name.
    pub fn api(name: &str) -> Self {
        Self::of(OriginKind::Api, name)
    }

    /// Returns the origin of what a run does.
    pub fn runner(jid: &Jid) -> Self {
        Self::of(OriginKind::Runner, jid.as_str())
    }

    /// Returns the same party in a session.
    #[must_use]
    pub fn in_session(self, session: SessionId) -> Self {
        Self {
            session: Some(session),
            ..self
        }
    }

    fn of(kind: OriginKind, id: &str) -> Self {
        Self {
            kind,
            id: id.to_owned(),
            session: None,
        }
    }

    /// Returns the origin as a mapping of texts: `kind`, and where there is one `id` and `session`.
    pub fn to_value(&self) -> Value {
        let mut entries = vec![("kind", Value::from(self.kind.name()))];
        if !self.id.is_empty() {
            entries.push(("id", Value::from(self.id.as_str())));
        }
        if let Some(session) = self.session {
            entries.push(("session", Value::from(session.to_string())));
        }
        Value::map(entries)
    }

    /// Reads an origin. What is absent is empty, and a kind that this version does not know is
    /// [`Unknown`](OriginKind::Unknown).
    pub fn from_value(value: &Value) -> Self {
        let text = |key| value.get(key).and_then(Value::as_str).unwrap_or_default();
        Self {
            kind: OriginKind::parse(text("kind")),
            id: text("id").to_owned(),
            session: session(text("session")),
        }
    }
}

/// Reads a session's id of 32 hexadecimal digits.
fn session(digits: &str) -> Option<SessionId> {
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let number = u128::from_str_radix(digits, 16).ok()?;
    Some(SessionId(number.to_be_bytes()))
}

impl fmt::Display for EventOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id.as_str() {
            "" => f.write_str(self.kind.name()),
            id => write!(f, "{} {id}", self.kind.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_origin_is_read_as_it_is_written() {
        for kind in OriginKind::ALL {
            for id in ["", "web1"] {
                let origin = EventOrigin::of(kind, id);
                let in_session = origin.clone().in_session(SessionId([0xab; 16]));
                for origin in [origin, in_session] {
                    assert_eq!(EventOrigin::from_value(&origin.to_value()), origin);
                }
            }
        }
    }

    #[test]
    fn what_another_version_writes_is_read_without_an_error() {
        let beacon = Value::map(
            [("kind", "beacon"), ("id", "scale"), ("session", "+1")]
                .map(|(key, value)| (key, Value::from(value))),
        );
        let read = EventOrigin::from_value(&beacon);
        assert_eq!(
            (read.kind, read.id.as_str()),
            (OriginKind::Unknown, "scale")
        );
        assert_eq!(read.session, None);
        assert_eq!(
            EventOrigin::from_value(&Value::Null).kind,
            OriginKind::Unknown
        );
    }
}
