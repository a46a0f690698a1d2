//! What an answer holds, and how it comes apart into entries that are written one by one.

use std::collections::HashMap;
use std::sync::Arc;

use saline_client::data::Value;

/// The size in bytes above which a list or a mapping is written entry by entry.
const LARGE: usize = 64 * 1024;

/// What an answer holds.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Value(Value),
    /// A value that the answer has in several places.
    Shared(Arc<Value>),
    List(Vec<Content>),
    Map(Vec<(String, Content)>),
}

impl Content {
    /// Makes a mapping, in the order of the entries.
    pub(crate) fn map<const N: usize>(entries: [(&str, Content); N]) -> Self {
        let entries = entries.into_iter();
        let entries = entries.map(|(name, content)| (name.to_owned(), content));
        Self::Map(entries.collect())
    }
}

impl From<Value> for Content {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// A content that came apart.
pub(super) enum Apart {
    /// It is written at once.
    Whole(Value),
    List(Elements),
    Map(NamedElements),
}

type Elements = Box<dyn Iterator<Item = Content> + Send>;
type NamedElements = Box<dyn Iterator<Item = (String, Content)> + Send>;

impl Content {
    /// Takes a list or a mapping apart if it is large.
    pub(super) fn apart(self) -> Apart {
        match self {
            Self::List(contents) if !contents.is_empty() => {
                Apart::List(Box::new(contents.into_iter()))
            }
            Self::Map(entries) if !entries.is_empty() => Apart::Map(Box::new(entries.into_iter())),
            Self::List(_) => Apart::Whole(Value::List(Vec::new())),
            Self::Map(_) => Apart::Whole(Value::Map(Vec::new())),
            Self::Shared(value) => Self::Value(Arc::unwrap_or_clone(value)).apart(),
            Self::Value(value) if !is_large(&value) => Apart::Whole(value),
            Self::Value(Value::List(values)) => {
                Apart::List(Box::new(values.into_iter().map(Content::Value)))
            }
            Self::Value(Value::Map(entries)) => {
                let entries = distinct(entries).into_iter();
                Apart::Map(Box::new(
                    entries.map(|(name, value)| (name, Content::Value(value))),
                ))
            }
            Self::Value(value) => Apart::Whole(value),
        }
    }
}

/// Whether a value takes more than [`LARGE`] bytes, about. Looks at no more of it than it takes to know.
fn is_large(value: &Value) -> bool {
    fn fits(value: &Value, left: &mut usize) -> bool {
        let own = match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let rest = left.checked_sub(own + size_of::<Value>());
        *left = rest.unwrap_or(0);
        rest.is_some()
            && match value {
                Value::List(values) => values.iter().all(|value| fits(value, left)),
                Value::Map(entries) => entries.iter().all(|(name, value)| {
                    *left = left.saturating_sub(name.len());
                    fits(value, left)
                }),
                _ => true,
            }
    }
    !fits(value, &mut { LARGE })
}

/// Leaves of several entries with one name the last, in the place of the first, as the writers of whole values do.
fn distinct(entries: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let mut places: HashMap<String, usize> = HashMap::with_capacity(entries.len());
    let mut distinct: Vec<(String, Value)> = Vec::with_capacity(entries.len());
    for (name, value) in entries {
        match places.get(&name) {
            Some(place) => distinct[*place].1 = value,
            None => {
                places.insert(name.clone(), distinct.len());
                distinct.push((name, value));
            }
        }
    }
    distinct
}
