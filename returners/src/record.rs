//! What is delivered.

use saline_data::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A job, a return or an event, as the master has stored it. Secret arguments are not in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// When the master stored it, in microseconds since 1970, or a little more. The number of a kept event may be that of
    /// a job or a return, whose tag is another: an event is recognised by both.
    pub number: i64,
    /// What was stored.
    pub content: Content,
}

/// The kinds of records. `data` has the fields of the event in Salt's form.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A job was published: `data` is that of `salt/job/<jid>/new`.
    Job {
        /// The jid.
        jid: String,
        /// The fields.
        data: Value,
    },
    /// A minion returned: `data` is that of `salt/job/<jid>/ret/<id>`, without `return` if that is too large.
    Return {
        /// The jid.
        jid: String,
        /// The id of the minion.
        minion: String,
        /// The fields.
        data: Value,
    },
    /// An event was fired.
    Event {
        /// The tag.
        tag: String,
        /// Who fired it.
        origin: Value,
        /// The data.
        data: Value,
    },
}

impl Record {
    /// Returns one mapping with everything: `kind`, `number`, and the fields of a job or of a return, or `tag`, `origin` and
    /// `data` of an event.
    pub fn to_value(&self) -> Value {
        let begin = |kind: &str| {
            vec![
                ("kind".to_owned(), Value::from(kind)),
                ("number".to_owned(), Value::Int(self.number)),
            ]
        };
        let with_fields = |kind: &str, data: &Value| {
            let mut entries = begin(kind);
            if let Value::Map(fields) = data {
                entries.extend(fields.iter().cloned());
            }
            Value::Map(entries)
        };
        match &self.content {
            Content::Job { data, .. } => with_fields("job", data),
            Content::Return { data, .. } => with_fields("return", data),
            Content::Event { tag, origin, data } => {
                let mut entries = begin("event");
                entries.extend([
                    ("tag".to_owned(), Value::from(tag.as_str())),
                    ("origin".to_owned(), origin.clone()),
                    ("data".to_owned(), data.clone()),
                ]);
                Value::Map(entries)
            }
        }
    }

    /// Returns the time at which the record was stored, in UTC, as RFC 3339 writes it.
    pub(crate) fn time(&self) -> String {
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.number) * 1_000);
        let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        time.format(&Rfc3339).unwrap_or_default()
    }
}
