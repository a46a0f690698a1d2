//! What a function logs in a job process: the lines travel with the return, and the minion writes them to its log.

use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};

use saline_messages::Jid;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The largest number of lines; further ones are dropped.
const MAX_LINES: usize = 200;

/// The longest line, in bytes.
const MAX_LINE: usize = 2048;

/// The level of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum LineLevel {
    Error,
    Warn,
    Info,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogLine {
    level: LineLevel,
    text: String,
}

impl LogLine {
    /// Writes the line to the log of this process.
    pub(super) fn log(&self, jid: &Jid) {
        let text = &self.text;
        match self.level {
            LineLevel::Error => tracing::error!("job {jid}: {text}"),
            LineLevel::Warn => tracing::warn!("job {jid}: {text}"),
            LineLevel::Info => tracing::info!("job {jid}: {text}"),
        }
    }
}

/// Collects the lines of a process.
#[derive(Debug)]
pub(super) struct LogLines(Mutex<Vec<LogLine>>);

impl LogLines {
    /// Begins without a line.
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Takes the lines so far.
    pub(super) fn take(&self) -> Vec<LogLine> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *lines)
    }
}

/// Hands the lines to [`LogLines`].
pub(super) struct Collector(pub(super) &'static LogLines);

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let level = match *event.metadata().level() {
            Level::ERROR => LineLevel::Error,
            Level::WARN => LineLevel::Warn,
            _ => LineLevel::Info,
        };
        let mut text = Text::default();
        event.record(&mut text);
        let mut lines = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MAX_LINES {
            let mut text = text.0;
            text.truncate(text.floor_char_boundary(MAX_LINE));
            lines.push(LogLine { level, text });
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The text of an event: its message, then its fields.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a text does not fail.
        let _ = match field.name() {
            "message" => {
                let message = format!("{value:?}");
                self.0.insert_str(0, &message);
                Ok(())
            }
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
