//! The body of an answer, which becomes text while it is sent.
//!
//! The returns of minions can be large, and their text several times as large as they are: what is large is written entry by
//! entry. Each becomes text when what is before it was sent, and goes then.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use saline_client::data::{Value, json, yaml};

use crate::content::{Apart, Content};
use crate::format::Format;

/// The size in bytes from which on what is written is sent.
const FRAME: usize = 64 * 1024;

/// The text of an answer.
pub(crate) struct AnswerBody {
    format: Format,
    /// The lists and mappings that are being written, the outermost first.
    levels: Vec<Level>,
    /// What is written and not yet sent.
    written: Vec<u8>,
    /// Whether a value is written, sent or not.
    is_begun: bool,
    /// Whether nothing comes behind what is written.
    is_whole: bool,
}

/// A list or a mapping of which some entries are written.
struct Level {
    /// The entries that are left. Those of a list have no name.
    rest: Box<dyn Iterator<Item = (Option<String>, Content)> + Send>,
    is_map: bool,
    /// Whether an entry is before the current one.
    has_before: bool,
    /// The name of the current entry.
    name: Option<String>,
    /// Whether a part of the current entry is written.
    is_begun: bool,
}

impl AnswerBody {
    /// Returns the text of this content.
    pub(crate) fn new(format: Format, content: Content) -> Self {
        let mut body = Self {
            format,
            levels: Vec::new(),
            written: Vec::new(),
            is_begun: false,
            is_whole: false,
        };
        body.enter(content);
        // So that a short text has its length in the head of the answer.
        body.write();
        body
    }

    /// Writes until a frame is full.
    fn write(&mut self) {
        while self.written.len() < FRAME && !self.is_whole {
            let Some(level) = self.levels.last_mut() else {
                self.is_whole = true;
                return;
            };
            match level.rest.next() {
                None => {
                    if self.format == Format::Json {
                        self.written.push(if level.is_map { b'}' } else { b']' });
                    }
                    self.levels.pop();
                }
                Some((name, content)) => {
                    if self.format == Format::Json {
                        if level.has_before {
                            self.written.extend_from_slice(b", ");
                        }
                        if let Some(name) = &name {
                            self.written.extend(json::line(&Value::from(name.as_str())));
                            self.written.extend_from_slice(b": ");
                        }
                    }
                    level.has_before = true;
                    level.is_begun = false;
                    level.name = name;
                    self.enter(content);
                }
            }
        }
    }

    /// Writes a content, or begins to write it entry by entry.
    fn enter(&mut self, content: Content) {
        let level = match content.apart() {
            Apart::Whole(value) => {
                match self.format {
                    Format::Json => self.written.extend(json::line(&value)),
                    Format::Yaml(_) => self.write_yaml(value),
                }
                return;
            }
            Apart::List(elements) => Level::new(false, elements.map(|content| (None, content))),
            Apart::Map(entries) => {
                let named = entries.map(|(name, content)| (Some(name), content));
                Level::new(true, named)
            }
        };
        if self.format == Format::Json {
            self.written.push(if level.is_map { b'{' } else { b'[' });
        }
        self.levels.push(level);
    }

    /// Writes a value at its place: as the only one of its lists and mappings, without what is written of these.
    fn write_yaml(&mut self, value: Value) {
        let whole = self
            .levels
            .iter()
            .rev()
            .fold(value, |value, level| match &level.name {
                Some(name) => Value::map([(name.as_str(), value)]),
                None => Value::List(vec![value]),
            });
        let mut text = yaml::write(&whole, None);
        let (mut begin, mut column) = (0, 0);
        let begun = self.levels.iter().take_while(|level| level.is_begun);
        let inner = self.levels.iter().skip(1);
        for (level, inner) in begun.zip(inner) {
            let is_long_name = text[begin + column..].starts_with(b"? ");
            if level.is_map {
                let line = text[begin..].iter().position(|byte| *byte == b'\n');
                begin += line.map_or(0, |length| length + 1);
            }
            if !level.is_map || is_long_name {
                // The dash, or the colon of a long name.
                text[begin + column..begin + column + 2].fill(b' ');
                column += 2;
            } else if inner.is_map {
                column += 2;
            }
        }
        if std::mem::replace(&mut self.is_begun, true) {
            self.written.push(b'\n');
        }
        self.written.extend_from_slice(&text[begin..]);
        for level in &mut self.levels {
            level.is_begun = true;
        }
    }
}

impl Level {
    fn new(
        is_map: bool,
        rest: impl Iterator<Item = (Option<String>, Content)> + Send + 'static,
    ) -> Self {
        Self {
            rest: Box::new(rest),
            is_map,
            has_before: false,
            name: None,
            is_begun: false,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.write();
        let text = std::mem::take(&mut self.written);
        Poll::Ready((!text.is_empty()).then(|| Ok(Frame::data(text.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_whole && self.written.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let written = self.written.len() as u64;
        match self.is_whole {
            true => SizeHint::with_exact(written),
            false => {
                let mut hint = SizeHint::new();
                hint.set_lower(written);
                hint
            }
        }
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody")
            .field("is_whole", &self.is_whole)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use proptest::prelude::*;

    use super::*;

    /// Returns the frames of a body.
    fn frames(format: Format, content: Content) -> Vec<Bytes> {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let mut body = AnswerBody::new(format, content);
            let mut frames = Vec::new();
            while let Some(frame) = body.frame().await {
                frames.push(frame.unwrap().into_data().unwrap());
            }
            frames
        })
    }

    fn whole(format: Format, value: &Value) -> Vec<u8> {
        match format {
            Format::Json => json::line(value),
            Format::Yaml(_) => yaml::write(value, None),
        }
    }

    #[test]
    fn returns_are_written_one_by_one() {
        let large = Value::from("x".repeat(FRAME));
        let minions = ["web1", "web2", "web3"].map(|id| (id, large.clone()));
        let returned = Value::List(vec![Value::map(minions)]);
        // As a runner returns it, further inside, too.
        let job = Value::map([("Function", Value::from("a")), ("Result", returned.clone())]);
        for value in [returned, Value::map([("return", Value::List(vec![job]))])] {
            for format in [Format::Json, Format::Yaml("text/yaml")] {
                let frames = frames(format, value.clone().into());
                assert!(frames.len() >= 3, "{format:?}: {}", frames.len());
                assert!(frames.iter().all(|frame| frame.len() < FRAME + 100));
                assert_eq!(frames.concat(), whole(format, &value), "{format:?}");
            }
        }
    }

    #[test]
    fn a_short_answer_has_its_length() {
        let short = Value::map([("return", Value::List(vec![Value::Bool(true)]))]);
        for (format, length) in [(Format::Json, 18), (Format::Yaml("text/yaml"), 14)] {
            let body = AnswerBody::new(format, short.clone().into());
            assert_eq!(body.size_hint().exact(), Some(length));
            let large = Value::List(vec![Value::from("x".repeat(FRAME)), Value::Null]);
            let large = AnswerBody::new(format, large.into());
            assert_eq!(large.size_hint().exact(), None);
        }
    }

    #[test]
    fn of_a_name_that_is_there_twice_the_last_entry_is_written() {
        let large = || Value::from("x".repeat(FRAME));
        let twice = Value::map([("a", large()), ("b", Value::Null), ("a", Value::Int(7))]);
        for format in [Format::Json, Format::Yaml("text/yaml")] {
            let text = frames(format, twice.clone().into()).concat();
            assert_eq!(text, whole(format, &twice));
        }
    }

    /// Takes a value apart at every list and mapping, whatever its size.
    fn apart(value: Value) -> Content {
        match value {
            Value::List(values) => Content::List(values.into_iter().map(apart).collect()),
            Value::Map(mut entries) => {
                entries.sort_by(|a, b| a.0.cmp(&b.0));
                entries.dedup_by(|a, b| a.0 == b.0);
                let entries = entries.into_iter();
                Content::Map(entries.map(|(name, value)| (name, apart(value))).collect())
            }
            value => Content::Shared(value.into()),
        }
    }

    fn together(content: Content) -> Value {
        match content {
            Content::Value(value) => value,
            Content::Shared(value) => (*value).clone(),
            Content::List(contents) => Value::List(contents.into_iter().map(together).collect()),
            Content::Map(entries) => {
                let entries = entries.into_iter();
                Value::map(entries.map(|(name, content)| (name, together(content))))
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn the_text_is_that_of_the_whole_value(value in saline_client::data::arbitrary::values(), long in 0..200_usize) {
            let named = Value::map([("n".repeat(long), value.clone()), ("z".repeat(long), value)]);
            let content = apart(named);
            let value = together(content.clone());
            for format in [Format::Json, Format::Yaml("text/yaml")] {
                let text = frames(format, content.clone()).concat();
                let whole = whole(format, &value);
                prop_assert_eq!(String::from_utf8_lossy(&text), String::from_utf8_lossy(&whole));
            }
        }
    }
}
