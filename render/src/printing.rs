//! Writes the value of `{{ an expression }}`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, Output, State};

use crate::containers::{
    BYTES_ARE_PRINTED, Bytes, List, MAX_DEPTH, Mapping, entries, invalid, number,
};
use crate::placeholders::{Form, PlaceholderError, Placeholders};

/// The placeholders of the rendering that is under way, for all that prints.
#[derive(Clone, Default)]
pub(crate) struct Printer(Arc<Mutex<Placeholders>>);

impl Printer {
    pub fn placeholders(&self) -> MutexGuard<'_, Placeholders> {
        // Its changes are single calls that leave it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a placeholder for a text.
    pub fn put(&self, text: &str, form: Form) -> Result<String, Error> {
        Ok(self.placeholders().put(text, form)?)
    }

    /// Returns a value with data in the place of placeholders: text that a template put together becomes data, which
    /// has no structure.
    pub fn text(&self, value: &Value) -> Value {
        match value.as_str() {
            Some(text) if value.is_safe() => Value::from(&*self.placeholders().replace(text)),
            Some(text) if self.placeholders().is_in(text) => {
                Value::from(&*self.placeholders().replace(text))
            }
            _ => value.clone(),
        }
    }

    /// Returns a value with data in the place of placeholders, also within lists and mappings.
    pub fn texts(&self, state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
        let are_none = self.placeholders().is_empty();
        match are_none {
            true => Ok(self.text(value)),
            false => Ok(self
                .within(state, value, 0)?
                .unwrap_or_else(|| self.text(value))),
        }
    }

    /// Returns a list or a mapping with data in the place of placeholders; none if it has no placeholder, or is neither.
    fn within(
        &self,
        state: &State<'_, '_>,
        value: &Value,
        depth: usize,
    ) -> Result<Option<Value>, Error> {
        let is_iterator = value.kind() == ValueKind::Iterable;
        // Kept containers nest no deeper.
        if depth > MAX_DEPTH
            || !(is_iterator || matches!(value.kind(), ValueKind::Seq | ValueKind::Map))
        {
            return Ok(None);
        }
        // An iterator gives each item once, so looking at the items would take them away.
        let mut has_any = is_iterator;
        let mut read = |inner: &Value| -> Result<Value, Error> {
            let found = match inner.as_str() {
                Some(text) => {
                    let is_in = self.placeholders().is_in(text);
                    is_in.then(|| self.text(inner))
                }
                None => self.within(state, inner, depth + 1)?,
            };
            has_any |= found.is_some();
            Ok(found.unwrap_or_else(|| inner.clone()))
        };
        let found = match value.kind() {
            ValueKind::Map => {
                let entries = entries(value)?;
                state.consume_fuel(entries.len() as u64 / 16)?;
                let read = entries
                    .iter()
                    .map(|(key, value)| Ok((read(key)?, read(value)?)));
                Mapping::of(read.collect::<Result<Vec<_>, Error>>()?)
            }
            _ => {
                let values: Vec<Value> = value.try_iter()?.collect();
                state.consume_fuel(values.len() as u64 / 16)?;
                List::of(values.iter().map(read).collect::<Result<Vec<_>, Error>>()?)
            }
        };
        Ok(has_any.then_some(found))
    }

    /// Prints a value: text of the template as it is, a word or a number as Python prints it, any other text as a
    /// placeholder.
    pub fn print(
        &self,
        out: &mut Output<'_>,
        _state: &mut State<'_, '_>,
        value: &Value,
    ) -> Result<(), Error> {
        if let Some(text) = value.as_str() {
            if value.is_safe() {
                return Ok(out.write_str(text)?);
            }
            let text = self.text(value);
            let text = text.as_str().unwrap_or_default();
            let is_plain = self.placeholders().writes_plain(text);
            return match is_plain {
                true => Ok(out.write_str(text)?),
                false => Ok(out.write_str(&self.put(text, Form::Text)?)?),
            };
        }
        let written = match value.kind() {
            // What `{{ x if y }}` is when not y.
            ValueKind::Undefined => return Ok(()),
            ValueKind::None => "None".to_owned(),
            ValueKind::Bool if value.is_true() => "True".to_owned(),
            ValueKind::Bool => "False".to_owned(),
            ValueKind::Number => number(value),
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
                return Err(invalid(format!(
                    "a {} is printed, which would be its text: write `|tojson` or `|yaml` behind it to have its values, or \
                     `|string` for its text",
                    match value.kind() {
                        ValueKind::Map => "mapping",
                        _ => "list",
                    }
                )));
            }
            _ if value.downcast_object_ref::<Bytes>().is_some() => {
                return Err(invalid(BYTES_ARE_PRINTED));
            }
            _ => return Err(invalid("this is not a value that can be printed")),
        };
        Ok(out.write_str(&written)?)
    }
}

impl From<PlaceholderError> for Error {
    fn from(error: PlaceholderError) -> Self {
        Error::new(ErrorKind::WriteFailure, error.to_string())
    }
}
