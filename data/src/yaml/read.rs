//! Parses YAML as Salt does. No other module but `node`, for its places, uses the YAML crate.
//!
//! The crate provides the parser of events. This module and `scalar` decide what an event means,
//! because Salt's YAML is PyYAML's: version 1.1, where `yes` is a truth value, with Salt's own
//! changes (a duplicate name in a mapping is an error, a number that begins with a zero is
//! decimal). Every tag yields a plain value; `!!binary` yields bytes, or text where they are UTF-8.

use std::collections::HashMap;

use crate::Value;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_saphyr::granit_parser::{
    ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag,
};

use super::entries::Entries;
use super::node::{Content, Key, Node, Position, YamlError};
use super::scalar;

/// The largest nesting of lists and mappings. Less than the limit of messages, so that every parsed
/// value can be sent.
pub const MAX_NESTING: usize = 64;

/// The largest number of nodes of one document after aliases are followed; a few lines of nested
/// aliases would otherwise fill the memory.
pub const MAX_NODES: usize = 100_000;

/// The largest number of bytes of text of one document after aliases are followed.
pub const MAX_TEXT: usize = 16 * 1024 * 1024;

/// Parses one document; an empty one is [`Value::Null`].
///
/// # Errors
/// When `text` is not one YAML document, a mapping has a duplicate key, a tag asks for something
/// other than a plain value, or the document is too deep or too large.
pub fn parse(text: &str) -> Result<Value, YamlError> {
    Ok(parse_nodes(text)?.map_or(Value::Null, Value::from))
}

/// Parses one document with the places of its parts; none when the document is empty.
///
/// # Errors
/// As [`parse`].
pub fn parse_nodes(text: &str) -> Result<Option<Node>, YamlError> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut composer = Composer {
        parser: Parser::new_from_str_with_options(text, options),
        last: Position { line: 1, column: 1 },
        anchors: HashMap::new(),
        spent: Size::default(),
    };
    let mut document = None;
    loop {
        match composer.next()? {
            (Event::StreamEnd, _) => return Ok(document),
            (Event::DocumentStart(..), position) if document.is_some() => {
                return Err(position.error("expected one document, and here a second begins"));
            }
            (Event::DocumentStart(..), _) => {
                let first = composer.next()?;
                document = Some(composer.node(first, 0)?);
            }
            _ => {}
        }
    }
}

/// The size of a node.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    nodes: usize,
    text: usize,
}

/// The target of an alias.
struct Anchored {
    node: Node,
    size: Size,
    depth: usize,
}

struct Composer<'a> {
    parser: Parser<'a, StrInput<'a>>,
    last: Position,
    anchors: HashMap<usize, Anchored>,
    spent: Size,
}

type At<'a> = (Event<'a>, Position);

impl<'a> Composer<'a> {
    fn next(&mut self) -> Result<At<'a>, YamlError> {
        match self.parser.next() {
            Some(Ok((event, span))) => {
                self.last = start(&span);
                Ok((event, self.last))
            }
            Some(Err(error)) => Err(syntax(&error)),
            None => Err(self.last.error("the document ends too early")),
        }
    }

    /// Parses the node that begins with `event`, inside `depth` lists and mappings.
    fn node(&mut self, (event, position): At<'a>, depth: usize) -> Result<Node, YamlError> {
        if depth > MAX_NESTING {
            let message = format!("lists and mappings nest deeper than {MAX_NESTING}");
            return Err(position.error(message));
        }
        let before = self.spent;
        let (anchor, content) = match event {
            Event::Alias(id) => return self.alias(id, position, depth),
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(position, 1, text.len())?;
                let value = scalar_value(&text, style, tag.as_deref())
                    .map_err(|message| position.error(message))?;
                (anchor, Content::Scalar(value))
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.spend(position, 1, 0)?;
                only_tag(tag.as_deref(), "seq").map_err(|message| position.error(message))?;
                (anchor, self.list(depth)?)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.spend(position, 1, 0)?;
                only_tag(tag.as_deref(), "map").map_err(|message| position.error(message))?;
                (anchor, self.map(depth)?)
            }
            _ => return Err(position.error("expected a value")),
        };
        let node = Node { position, content };
        if anchor > 0 {
            let size = Size {
                nodes: self.spent.nodes - before.nodes,
                text: self.spent.text - before.text,
            };
            // The copy that is kept counts too.
            self.spend(position, size.nodes, size.text)?;
            let anchored = Anchored {
                depth: node.depth(),
                node: node.clone(),
                size,
            };
            self.anchors.insert(anchor, anchored);
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Content, YamlError> {
        let mut nodes = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Content::List(nodes)),
                first => nodes.push(self.node(first, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Content, YamlError> {
        let mut entries = Entries::default();
        loop {
            let first = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Content::Map(entries.finish())),
                first => first,
            };
            let merges = matches!(
                &first.0,
                Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<"
            );
            let key = self.node(first, depth + 1)?;
            let position = key.position;
            let second = self.next()?;
            let value = self.node(second, depth + 1)?;
            if merges {
                entries.merge(value)?;
            } else {
                let name = key_text(key)?;
                entries.insert(Key { position, name }, value)?;
            }
        }
    }

    fn alias(&mut self, id: usize, position: Position, depth: usize) -> Result<Node, YamlError> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(position.error("an alias is inside its own anchor"));
        };
        if depth + anchored.depth > MAX_NESTING {
            let message = format!("lists and mappings nest deeper than {MAX_NESTING}");
            return Err(position.error(message));
        }
        let size = anchored.size;
        self.spend(position, size.nodes, size.text)?;
        match self.anchors.get(&id) {
            Some(anchored) => Ok(anchored.node.clone()),
            None => Err(position.error("an alias names nothing")),
        }
    }

    fn spend(&mut self, position: Position, nodes: usize, text: usize) -> Result<(), YamlError> {
        self.spent.nodes = self.spent.nodes.saturating_add(nodes);
        self.spent.text = self.spent.text.saturating_add(text);
        if self.spent.nodes > MAX_NODES || self.spent.text > MAX_TEXT {
            return Err(position.error(format!(
                "more than {MAX_NODES} values or {MAX_TEXT} bytes of text, aliases followed"
            )));
        }
        Ok(())
    }
}

impl Node {
    /// Returns the nesting of lists and mappings, including this node.
    fn depth(&self) -> usize {
        match &self.content {
            Content::Scalar(_) => 0,
            Content::List(nodes) => 1 + nodes.iter().map(Self::depth).max().unwrap_or_default(),
            Content::Map(entries) => {
                let depths = entries.iter().map(|(_, node)| node.depth());
                1 + depths.max().unwrap_or_default()
            }
        }
    }
}

fn start(span: &Span) -> Position {
    span.start.into()
}

fn syntax(error: &ScanError) -> YamlError {
    let hint = match error.kind() {
        ErrorKind::MappingValueNotAllowed => " (text with a colon before a space needs quotes)",
        _ => "",
    };
    Position::from(*error.marker()).error(error.info() + hint)
}

/// Returns the value of a scalar: only plain ones without a tag may be other than text.
fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return Ok(match style {
            ScalarStyle::Plain => scalar::resolve(text),
            _ => Value::Text(text.to_owned()),
        });
    };
    // Salt reads these as text, and Python 2 wrote the second one before every text.
    let suffix = tag.suffix_in_namespace("tag:yaml.org,2002:");
    if let Some("timestamp" | "python/unicode") = suffix.as_deref() {
        return Ok(Value::Text(text.to_owned()));
    }
    if let Some("binary") = suffix.as_deref() {
        return binary(text);
    }
    let value = scalar::resolve(text);
    let fits = match tag.core_suffix() {
        Some("str") => return Ok(Value::Text(text.to_owned())),
        Some("int") => matches!(value, Value::Int(_) | Value::UInt(_)),
        Some("float") => match value {
            Value::Int(n) => return Ok(Value::Float(n as f64)),
            Value::UInt(n) => return Ok(Value::Float(n as f64)),
            _ => matches!(value, Value::Float(_)),
        },
        Some("bool") => matches!(value, Value::Bool(_)),
        Some("null") => matches!(value, Value::Null),
        // A lone `!` says that this is text.
        None if tag.original() == "!" => return Ok(Value::Text(text.to_owned())),
        _ => return Err(unknown_tag()),
    };
    if fits {
        Ok(value)
    } else {
        // The text may be a secret, and errors are logged.
        Err(format!("the value does not fit its tag {}", tag.original()))
    }
}

/// Decodes the Base64 of `!!binary`, which may stand in several lines.
fn binary(text: &str) -> Result<Value, String> {
    let encoded: String = text.split_ascii_whitespace().collect();
    let decoded = STANDARD.decode(encoded);
    // The text may be a secret.
    let decoded = decoded.map_err(|_| "the value of !!binary is not Base64".to_owned())?;
    Ok(Value::from_output(decoded))
}

fn only_tag(tag: Option<&Tag>, known: &str) -> Result<(), String> {
    match tag {
        Some(tag) if !tag.is_yaml_core_schema_tag(known) && tag.original() != "!" => {
            Err(unknown_tag())
        }
        _ => Ok(()),
    }
}

/// Returns that a tag is not known, without the tag: a password that begins with `!` and stands without quotes is one.
fn unknown_tag() -> String {
    "the tag is not known: put a text that begins with ! between quotes".to_owned()
}

fn key_text(key: Node) -> Result<String, YamlError> {
    match key.content {
        Content::Scalar(value) => Ok(scalar::as_key(value)),
        _ => Err(key.position.error("a list or a mapping cannot be a key")),
    }
}
