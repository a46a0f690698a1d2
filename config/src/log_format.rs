//! How a line of the log is written: Saline's own text, JSON, or a format as Salt (Python's `logging`) has it.

use std::str::FromStr;
use std::sync::Arc;

/// The widest field of a format, in characters.
const MAX_WIDTH: usize = 200;

/// How a line of the log is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// `text`: time, level and message.
    Text,
    /// `json`: an object for each line.
    Json,
    /// A format with fields such as `%(message)s`.
    Pattern(Arc<[Piece]>),
}

/// A piece of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text that is written as it is.
    Literal(String),
    /// A field, which is padded to a width in characters.
    Field(LogField, Align, usize),
}

/// How a field is padded to its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// With spaces after it: `-8`.
    Left,
    /// With spaces before it: `8`.
    Right,
    /// With zeros before it: `08`.
    Zeros,
}

/// A field of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogField {
    /// `asctime`: date and time in UTC, to the second.
    Time,
    /// `msecs`: the milliseconds of the time.
    Milliseconds,
    /// `levelname`, `colorlevel`
    Level,
    /// `name`, `colorname`: the part of the program that writes the line.
    Name,
    /// `process`, `colorprocess`: the id of the process.
    Process,
    /// `threadName`
    Thread,
    /// `message`, `colormsg`
    Message,
}

impl LogField {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "asctime" => Self::Time,
            "msecs" => Self::Milliseconds,
            "levelname" | "colorlevel" => Self::Level,
            "name" | "colorname" => Self::Name,
            "process" | "colorprocess" => Self::Process,
            "threadName" => Self::Thread,
            "message" | "colormsg" => Self::Message,
            _ => return None,
        })
    }
}

/// The reason why a text is no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownFormat {
    /// It has no field for the message, so that every line would be the same.
    #[error("{0:?} has no %(message)s")]
    NoMessage(String),
    /// A field that is not known.
    #[error(
        "there is no field {0:?}; known are: asctime, msecs, levelname, name, process, threadName, message"
    )]
    Field(String),
    /// A percent sign that begins no field.
    #[error("{0:?} is not of the form %(name)s; a percent sign itself is written %%")]
    Malformed(String),
}

impl FromStr for LogFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "text" => return Ok(Self::Text),
            "json" => return Ok(Self::Json),
            _ => {}
        }
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            literal.push_str(before);
            if let Some(after) = after.strip_prefix('%') {
                literal.push('%');
                rest = after;
                continue;
            }
            let (field, after) = field(after)?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(field);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        let is_message = |piece: &Piece| matches!(piece, Piece::Field(LogField::Message, ..));
        if !pieces.iter().any(is_message) {
            return Err(UnknownFormat::NoMessage(text.to_owned()));
        }
        Ok(Self::Pattern(pieces.into()))
    }
}

/// Reads a field after its percent sign. Returns it with what follows it.
fn field(text: &str) -> Result<(Piece, &str), UnknownFormat> {
    let malformed = || {
        let shown: String = text.chars().take(20).collect();
        UnknownFormat::Malformed(format!("%{shown}"))
    };
    let (name, rest) = text
        .strip_prefix('(')
        .and_then(|text| text.split_once(')'))
        .ok_or_else(malformed)?;
    let field = LogField::named(name).ok_or_else(|| UnknownFormat::Field(name.to_owned()))?;
    let (align, rest) = match rest.strip_prefix('-') {
        Some(rest) => (Align::Left, rest),
        None if rest.starts_with('0') => (Align::Zeros, rest),
        None => (Align::Right, rest),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .ok_or_else(malformed)?;
    let (digits, rest) = rest.split_at(end);
    let width = match digits {
        "" => 0,
        digits => digits.parse().map_err(|_| malformed())?,
    };
    if width > MAX_WIDTH {
        return Err(malformed());
    }
    let rest = rest.strip_prefix(['s', 'd']).ok_or_else(malformed)?;
    Ok((Piece::Field(field, align, width), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn salts_formats_are_read() {
        let text = "%(asctime)s,%(msecs)03d [%(name)-17s][%(levelname)8s] 100%% %(message)s";
        let literal = |text: &str| Piece::Literal(text.to_owned());
        let expected = [
            Piece::Field(LogField::Time, Align::Right, 0),
            literal(","),
            Piece::Field(LogField::Milliseconds, Align::Zeros, 3),
            literal(" ["),
            Piece::Field(LogField::Name, Align::Left, 17),
            literal("]["),
            Piece::Field(LogField::Level, Align::Right, 8),
            literal("] 100% "),
            Piece::Field(LogField::Message, Align::Right, 0),
        ];
        assert_eq!(text.parse(), Ok(LogFormat::Pattern(expected.into())));
        assert_eq!("text".parse(), Ok(LogFormat::Text));
        assert_eq!("json".parse(), Ok(LogFormat::Json));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| text.parse::<LogFormat>().unwrap_err().to_string();
        insta::assert_snapshot!(error("%(nosuch)s %(message)s"), @r#"there is no field "nosuch"; known are: asctime, msecs, levelname, name, process, threadName, message"#);
        insta::assert_snapshot!(error("jsn"), @r#""jsn" has no %(message)s"#);
        insta::assert_snapshot!(error("%(message)q"), @r#""%(message)q" is not of the form %(name)s; a percent sign itself is written %%"#);
        insta::assert_snapshot!(error("%(message)s 5% of"), @r#""% of" is not of the form %(name)s; a percent sign itself is written %%"#);
        assert!(
            "%(message)99999999999999999999s"
                .parse::<LogFormat>()
                .is_err()
        );
        assert!("%(message)-".parse::<LogFormat>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r"[%()a-z0-9 -]{0,40}|\PC{0,20}") {
            let _ = text.parse::<LogFormat>();
        }
    }
}
