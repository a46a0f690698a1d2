//! The lists and mappings of templates, which `append` and `update` change as Python's are changed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use saline_data::python::repr_float;

/// The deepest nesting of containers that a template may print or keep.
pub(crate) const MAX_DEPTH: usize = 64;

/// A list.
pub(crate) struct List(Mutex<Vec<Value>>);

/// A mapping, in the order in which its entries came.
pub(crate) struct Mapping(Mutex<IndexMap<Value, Value>>);

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change of a container is one call that leaves it whole.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl List {
    /// Returns a list of these values.
    pub fn of(values: impl IntoIterator<Item = Value>) -> Value {
        Value::from_object(Self(Mutex::new(values.into_iter().collect())))
    }
}

impl Mapping {
    /// Returns a mapping of these entries.
    pub fn of(entries: impl IntoIterator<Item = (Value, Value)>) -> Value {
        Value::from_object(Self(Mutex::new(entries.into_iter().collect())))
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(locked(&self.0).iter()).finish()
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = locked(&self.0);
        f.debug_map().entries(entries.iter()).finish()
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        locked(&self.0).get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(locked(&self.0).len())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        state.consume_fuel(1)?;
        let own = Arc::as_ptr(self).cast::<()>();
        match method {
            "append" => {
                let (value,): (Value,) = from_args(args)?;
                refuse_circle(&value, own, 0)?;
                locked(&self.0).push(value);
            }
            "extend" => {
                let (values,): (Value,) = from_args(args)?;
                let values: Vec<Value> = values.try_iter()?.collect();
                state.consume_fuel(values.len() as u64)?;
                values.iter().try_for_each(|it| refuse_circle(it, own, 0))?;
                locked(&self.0).extend(values);
            }
            "insert" => {
                let (at, value): (i64, Value) = from_args(args)?;
                refuse_circle(&value, own, 0)?;
                let mut list = locked(&self.0);
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let at = if at < 0 { at + length } else { at }.clamp(0, length);
                list.insert(usize::try_from(at).unwrap_or_default(), value);
            }
            "pop" => {
                let (at,): (Option<i64>,) = from_args(args)?;
                let mut list = locked(&self.0);
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let at = at.unwrap_or(-1);
                let at = usize::try_from(if at < 0 { at + length } else { at });
                return match at {
                    Ok(at) if at < list.len() => Ok(list.remove(at)),
                    _ => Err(invalid("pop from a list that is too short")),
                };
            }
            "remove" => {
                let (value,): (Value,) = from_args(args)?;
                let mut list = locked(&self.0);
                let at = list.iter().position(|own| *own == value);
                let at = at.ok_or_else(|| invalid("the value to remove is not in the list"))?;
                list.remove(at);
            }
            "clear" => locked(&self.0).clear(),
            "reverse" => locked(&self.0).reverse(),
            "copy" => {
                let list = locked(&self.0).clone();
                state.consume_fuel(list.len() as u64)?;
                return Ok(Self::of(list));
            }
            "index" => {
                let (value,): (Value,) = from_args(args)?;
                let at = locked(&self.0).iter().position(|own| *own == value);
                return match at {
                    Some(at) => Ok(Value::from(at)),
                    None => Err(invalid("the value is not in the list")),
                };
            }
            "sort" => {
                let (named,): (Kwargs,) = from_args(args)?;
                let reverse = named.get::<Option<bool>>("reverse")?.unwrap_or_default();
                named.assert_all_used()?;
                let options = [("case_sensitive", true), ("reverse", reverse)];
                let options = options.map(|(name, value)| (name, Value::from(value)));
                let list = Self::of(locked(&self.0).clone());
                let sorted = minijinja::filters::sort(state, list, Kwargs::from_iter(options))?;
                let sorted = sorted.try_iter()?.collect();
                *locked(&self.0) = sorted;
            }
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        }
        Ok(Value::from(()))
    }
}

impl Object for Mapping {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let entries = locked(&self.0);
        if let Some(value) = entries.get(key) {
            return Some(value.clone());
        }
        // Keys of YAML are texts here, also those that Salt has as numbers: `map[grains.osmajorrelease]`.
        match key.kind() {
            ValueKind::Number | ValueKind::Bool | ValueKind::None => {
                entries.get(&Value::from(python_text(key)?)).cloned()
            }
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(locked(&self.0).keys().cloned().collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(locked(&self.0).len())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        state.consume_fuel(1)?;
        let own = Arc::as_ptr(self).cast::<()>();
        match method {
            "update" => {
                let (others, named): (Option<Value>, Kwargs) = from_args(args)?;
                let mut added = Vec::new();
                if let Some(others) = others {
                    added.extend(entries(&others)?);
                }
                for name in named.args().map(str::to_owned).collect::<Vec<_>>() {
                    let value: Value = named.get(&name)?;
                    added.push((Value::from(name), value));
                }
                state.consume_fuel(added.len() as u64)?;
                let mut values = added.iter();
                values.try_for_each(|(_, value)| refuse_circle(value, own, 0))?;
                locked(&self.0).extend(added);
                Ok(Value::from(()))
            }
            "setdefault" => {
                let (key, default): (Value, Option<Value>) = from_args(args)?;
                let default = default.unwrap_or_else(|| Value::from(()));
                refuse_circle(&default, own, 0)?;
                let mut mapping = locked(&self.0);
                Ok(mapping.entry(key).or_insert(default).clone())
            }
            "pop" => {
                let (key, default): (Value, Option<Value>) = from_args(args)?;
                let taken = locked(&self.0).shift_remove(&key);
                taken
                    .or(default)
                    .ok_or_else(|| invalid(format!("the mapping has no key {key}")))
            }
            "copy" => {
                let entries = locked(&self.0).clone();
                state.consume_fuel(entries.len() as u64)?;
                Ok(Self::of(entries))
            }
            "clear" => {
                locked(&self.0).clear();
                Ok(Value::from(()))
            }
            "popitem" => {
                let (key, value) = locked(&self.0)
                    .pop()
                    .ok_or_else(|| invalid("the mapping is empty"))?;
                Ok(Value::from(vec![key, value]))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// Returns the entries of a mapping, or of a list of pairs.
pub(crate) fn entries(value: &Value) -> Result<Vec<(Value, Value)>, Error> {
    let keys: Vec<Value> = value.try_iter()?.collect();
    if value.kind() == ValueKind::Map {
        let entry = |key: Value| Ok((key.clone(), value.get_item(&key)?));
        return keys.into_iter().map(entry).collect();
    }
    let pair = |pair: Value| Ok((pair.get_item_by_index(0)?, pair.get_item_by_index(1)?));
    keys.into_iter().map(pair).collect()
}

/// Refuses a value that contains the container that it is put into, and one that nests too deep.
fn refuse_circle(value: &Value, own: *const (), depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(invalid(format!(
            "lists and mappings nest deeper than {MAX_DEPTH}"
        )));
    }
    let inner: Vec<Value> = if let Some(list) = value.downcast_object::<List>() {
        if Arc::as_ptr(&list).cast::<()>() == own {
            return Err(invalid("a list cannot contain itself"));
        }
        locked(&list.0).clone()
    } else if let Some(mapping) = value.downcast_object::<Mapping>() {
        if Arc::as_ptr(&mapping).cast::<()>() == own {
            return Err(invalid("a mapping cannot contain itself"));
        }
        locked(&mapping.0).values().cloned().collect()
    } else {
        return Ok(());
    };
    let mut inner = inner.iter();
    inner.try_for_each(|value| refuse_circle(value, own, depth + 1))
}

/// Bytes that are not text.
#[derive(Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Object for Bytes {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    /// Writes them as Python does where they become a part of a text.
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&saline_data::python::repr_bytes(&self.0))
    }
}

/// The error of a template that prints [`Bytes`].
pub(crate) const BYTES_ARE_PRINTED: &str =
    "bytes that are not UTF-8 cannot be printed: write `|base64_encode` behind the value";

/// Returns a value of templates. Bytes that are not UTF-8 become [`Bytes`].
pub(crate) fn from_data(value: &saline_data::Value) -> Value {
    use saline_data::Value as Data;
    match value {
        Data::Null => Value::from(()),
        Data::Bool(value) => Value::from(*value),
        Data::Int(number) => Value::from(*number),
        Data::UInt(number) => Value::from(*number),
        Data::Float(number) => Value::from(*number),
        Data::Text(text) => Value::from(text.as_str()),
        Data::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::from(text),
            Err(_) => Value::from_object(Bytes(bytes.clone())),
        },
        Data::List(values) => List::of(values.iter().map(from_data)),
        Data::Map(entries) => {
            let entries = entries.iter();
            Mapping::of(entries.map(|(key, value)| (Value::from(key.as_str()), from_data(value))))
        }
    }
}

/// Returns a container that can be changed in the place of minijinja's own, which cannot; other values as they are.
pub(crate) fn own(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    if value.downcast_object_ref::<List>().is_some()
        || value.downcast_object_ref::<Mapping>().is_some()
        || value.is_kwargs()
    {
        return Ok(value);
    }
    match value.kind() {
        // A tuple cannot be changed in Python either.
        ValueKind::Seq if value.is_tuple() => Ok(value),
        ValueKind::Seq => {
            let values: Vec<Value> = value.try_iter()?.collect();
            state.consume_fuel(values.len() as u64)?;
            Ok(List::of(values))
        }
        ValueKind::Map
            if value
                .downcast_object_ref::<IndexMap<Value, Value>>()
                .is_some() =>
        {
            let entries = entries(&value)?;
            state.consume_fuel(entries.len() as u64)?;
            Ok(Mapping::of(entries))
        }
        _ => Ok(value),
    }
}

/// Returns the text that Python has for a value which is neither a list nor a mapping.
pub(crate) fn python_text(value: &Value) -> Option<String> {
    Some(match value.kind() {
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        ValueKind::Number => number(value),
        ValueKind::Bool if value.is_true() => "True".to_owned(),
        ValueKind::Bool => "False".to_owned(),
        ValueKind::None => "None".to_owned(),
        _ => return None,
    })
}

/// Returns a number as Python prints it.
pub(crate) fn number(value: &Value) -> String {
    match i128::try_from(value.clone()) {
        Ok(number) if value.is_integer() => number.to_string(),
        _ => match f64::try_from(value.clone()) {
            Ok(number) if !value.is_integer() => repr_float(number),
            _ => value.to_string(),
        },
    }
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}
