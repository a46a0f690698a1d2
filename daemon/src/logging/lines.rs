//! The lines of the log, in the format that the configuration asks for.

use std::fmt::{self, Write as _};
use std::sync::{Arc, PoisonError, RwLock};

use saline_config::{Align, LogField, LogFormat, Piece};
use saline_data::printable::is_printable;
use saline_protocol::transport::Clock;
use time::OffsetDateTime;
use time::macros::format_description;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::{journal, module};

/// The format of the lines. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Lines(Arc<RwLock<Shape>>);

/// For whom the lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// A file, a pipe, or a terminal without colours.
    Plain,
    /// A terminal with colours.
    Terminal,
    /// The journal of systemd, which knows the time.
    Journal,
}

#[derive(Debug)]
struct Shape {
    format: LogFormat,
    reader: Reader,
    text: Format<Full, SystemTime>,
}

impl Shape {
    fn new(format: LogFormat, reader: Reader) -> Self {
        let colours = reader == Reader::Terminal;
        Self {
            format,
            reader,
            text: Format::default().with_target(false).with_ansi(colours),
        }
    }

    /// Returns the prefix of each line of this level.
    fn prefix(&self, level: &Level) -> &'static str {
        match self.reader {
            Reader::Journal => journal::priority(level),
            Reader::Plain | Reader::Terminal => "",
        }
    }
}

impl Lines {
    /// Writes lines in `format` for this reader.
    pub(super) fn new(format: LogFormat, reader: Reader) -> Self {
        Self(Arc::new(RwLock::new(Shape::new(format, reader))))
    }

    /// Writes the lines from now on in another format, or for another reader.
    pub(super) fn set(&self, format: LogFormat, reader: Reader) {
        let mut shape = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *shape = Shape::new(format, reader);
    }

    /// Returns the line about lines that were dropped.
    pub(super) fn about_drops(&self, dropped: u64, why: &str) -> String {
        let message = format!("{dropped} lines of the log were dropped: {why}");
        let about = About {
            level: &Level::WARN,
            target: module_path!(),
        };
        let shape = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut line = shape.prefix(about.level).to_owned();
        // Writing to a `String` does not fail.
        let _ = match &shape.format {
            LogFormat::Text => write!(line, "WARN {message}"),
            LogFormat::Json => write!(line, "{}", json(&about, message, Vec::new())),
            LogFormat::Pattern(pieces) => about.write_pattern(&mut line, pieces, &message),
        };
        line.push('\n');
        line
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let shape = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let about = About {
            level: event.metadata().level(),
            target: module(event.metadata().target()),
        };
        writer.write_str(shape.prefix(about.level))?;
        match &shape.format {
            LogFormat::Text if shape.reader == Reader::Journal => {
                context.format_fields(writer.by_ref(), event)?;
                writer.write_char('\n')
            }
            LogFormat::Text => shape.text.format_event(context, writer, event),
            LogFormat::Json => {
                let mut found = Fields::default();
                event.record(&mut found);
                writeln!(writer, "{}", json(&about, found.message, found.others))
            }
            LogFormat::Pattern(pieces) => {
                let mut message = String::new();
                context.format_fields(Writer::new(&mut message), event)?;
                about.write_pattern(&mut writer, pieces, &message)?;
                writer.write_char('\n')
            }
        }
    }
}

/// The metadata of a line.
struct About<'a> {
    level: &'a Level,
    target: &'a str,
}

impl About<'_> {
    fn write_pattern(
        &self,
        writer: &mut impl fmt::Write,
        pieces: &[Piece],
        message: &str,
    ) -> fmt::Result {
        let now = OffsetDateTime::from(Clock.wall());
        for piece in pieces {
            let (field, align, width) = match piece {
                Piece::Literal(text) => {
                    writer.write_str(text)?;
                    continue;
                }
                Piece::Field(field, align, width) => (field, align, *width),
            };
            let text = self.field(*field, now, message)?;
            match align {
                Align::Left => write!(writer, "{text:<width$}")?,
                Align::Right => write!(writer, "{text:>width$}")?,
                Align::Zeros => write!(writer, "{text:0>width$}")?,
            }
        }
        Ok(())
    }

    fn field(
        &self,
        field: LogField,
        now: OffsetDateTime,
        message: &str,
    ) -> Result<String, fmt::Error> {
        let second = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
        Ok(match field {
            LogField::Time => now.format(&second).map_err(|_| fmt::Error)?,
            LogField::Milliseconds => now.millisecond().to_string(),
            LogField::Level => salts_name(self.level).to_owned(),
            LogField::Name => self.target.to_owned(),
            LogField::Process => std::process::id().to_string(),
            LogField::Thread => std::thread::current().name().unwrap_or("").to_owned(),
            LogField::Message => message.to_owned(),
        })
    }
}

/// Returns the name that a level has in Salt's logs.
fn salts_name(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            name => self.others.push((name, value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Returns a line of JSON, without its end. What is not printable is escaped, so that the line may be shown.
fn json(about: &About<'_>, message: String, others: Vec<(&'static str, String)>) -> String {
    let microseconds =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    let now = OffsetDateTime::from(Clock.wall());
    let mut object = serde_json::Map::new();
    let mut add = |name: &str, value: serde_json::Value| object.insert(name.to_owned(), value);
    // Years of four digits always have this form.
    add("time", now.format(&microseconds).unwrap_or_default().into());
    add("level", salts_name(about.level).into());
    add("name", about.target.into());
    add("process", std::process::id().into());
    add("message", message.into());
    if !others.is_empty() {
        let others = others.into_iter();
        let fields = others.map(|(name, value)| (name.to_owned(), value.into()));
        add("fields", serde_json::Value::Object(fields.collect()));
    }
    let text = serde_json::Value::Object(object).to_string();
    if text.chars().all(is_printable) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_printable(c) {
            true => escaped.push(c),
            // They all are below U+10000.
            false => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
        }
    }
    escaped
}
