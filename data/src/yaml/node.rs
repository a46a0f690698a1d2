//! A parsed value with the places of its parts, and the error at one of them.

use crate::Value;
use serde_saphyr::granit_parser::Marker;

/// The reason why a text is not valid YAML, or not supported. One line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct YamlError {
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// The mistake, without its place.
    pub message: String,
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
}

impl Position {
    /// Returns an error at this place.
    pub fn error(self, message: impl Into<String>) -> YamlError {
        YamlError {
            line: self.line,
            column: self.column,
            message: message.into().replace(['\n', '\r'], " "),
        }
    }
}

impl From<Marker> for Position {
    fn from(marker: Marker) -> Self {
        Self {
            line: marker.line() as u64,
            column: marker.col() as u64 + 1,
        }
    }
}

/// A value with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The beginning of the value. The place of an alias is that of its anchor.
    pub position: Position,
    /// The value.
    pub content: Content,
}

/// The content of a [`Node`].
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A scalar.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// A mapping in the order of the text. No key occurs twice.
    Map(Vec<(Key, Node)>),
}

/// The key of an entry of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The beginning of the key.
    pub position: Position,
    /// The key as text; other values are written as Python prints them.
    pub name: String,
}

impl From<Node> for Value {
    fn from(node: Node) -> Self {
        match node.content {
            Content::Scalar(value) => value,
            Content::List(nodes) => Self::List(nodes.into_iter().map(Self::from).collect()),
            Content::Map(entries) => {
                let entries = entries.into_iter();
                Self::Map(entries.map(|(k, v)| (k.name, Self::from(v))).collect())
            }
        }
    }
}
