//! The arguments of a function.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use saline_data::{Packed, UnpackError, Value};

/// The packed arguments of a function. The master passes them on as they came, and unpacks them only to judge rules about
/// arguments and to show them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedArguments(Packed);

/// The positional and named arguments of a function.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arguments {
    /// The positional arguments in order.
    pub positional: Vec<Value>,
    /// The `key=value` arguments in the order in which they were typed. No name occurs twice.
    pub named: Vec<(String, Value)>,
}

impl Arguments {
    /// Packs the arguments in the form that Salt's events and job cache show: a list of the
    /// positional ones and, if there are named ones, a mapping of them that also holds `__kwarg__:
    /// True`.
    pub fn pack(&self) -> PackedArguments {
        PackedArguments(Packed::pack(&self.to_salt()))
    }

    /// Returns the same form as a value.
    pub fn to_salt(&self) -> Value {
        let mut list = self.positional.clone();
        if !self.named.is_empty() {
            let mut entries = vec![("__kwarg__".to_owned(), Value::Bool(true))];
            entries.extend(self.named.iter().cloned());
            list.push(Value::Map(entries));
        }
        Value::List(list)
    }
}

impl PackedArguments {
    /// Unpacks the arguments.
    ///
    /// # Errors
    /// When the bytes are not a packed list, or a name occurs twice.
    pub fn unpack(&self) -> Result<Arguments, UnpackError> {
        let Value::List(mut positional) = self.0.unpack()? else {
            return Err(UnpackError::new("arguments are a list"));
        };
        let mut named: Vec<(String, Value)> = Vec::new();
        if let Some(Value::Map(entries)) = positional.last()
            && entries
                .iter()
                .any(|(key, value)| key == "__kwarg__" && *value == Value::Bool(true))
        {
            named = entries
                .iter()
                .filter(|(key, _)| key != "__kwarg__")
                .cloned()
                .collect();
            let mut names = HashSet::new();
            if let Some((twice, _)) = named.iter().find(|(name, _)| !names.insert(name)) {
                let shown: String = twice.chars().take(64).collect();
                return Err(UnpackError::new(format!(
                    "the argument {shown:?} occurs twice"
                )));
            }
            positional.pop();
        }
        Ok(Arguments { positional, named })
    }

    /// Returns the packed list, as the store keeps it.
    pub fn as_packed(&self) -> &Packed {
        &self.0
    }

    /// Wraps a packed list from the store.
    pub fn from_packed(packed: Packed) -> Self {
        Self(packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(value: &Value) -> Result<Arguments, UnpackError> {
        PackedArguments::from_packed(Packed::pack(value)).unpack()
    }

    #[test]
    fn what_is_no_list_is_no_arguments() {
        for value in [
            Value::Null,
            Value::from("a"),
            Value::map([("a", Value::Null)]),
        ] {
            assert!(
                unpacked(&value).is_err(),
                "a function would run without them"
            );
        }
    }

    #[test]
    fn no_name_occurs_twice() {
        let named = |names: &[&str]| {
            let marked = [("__kwarg__", Value::Bool(true))].into_iter();
            let entries = marked.chain(names.iter().map(|name| (*name, Value::Null)));
            unpacked(&Value::List(vec![Value::map(entries)]))
        };
        assert_eq!(named(&["a", "b"]).unwrap().named.len(), 2);
        assert!(named(&["a", "b", "a"]).is_err());
    }
}
