//! `salt['pillar.get']` and the other functions that templates may call: they read what the template was given, and
//! nothing else.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, Value, ValueKind};
use minijinja::{Error, State};

use crate::containers::{Mapping, entries, invalid, python_text};
use crate::printing::Printer;

/// The functions, by their names.
pub(crate) const FUNCTIONS: [&str; 4] =
    ["config.get", "grains.filter_by", "grains.get", "pillar.get"];

/// Returns what an operator is told when the engine says that a function of `salt` is undefined.
pub(crate) fn absent_function(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("`salt['")?;
    let (name, _) = rest.split_once("']`")?;
    Some(not_there(name))
}

fn not_there(name: &str) -> String {
    let functions = FUNCTIONS.join(", ");
    format!("{name} is not there in templates, which call {functions}")
}

/// The object `salt` of templates: `salt['pillar.get']('a:b')` or `salt.pillar.get('a:b')`.
pub(crate) struct Salt {
    pub printer: Printer,
    pub grains: Value,
    pub pillar: Value,
    pub opts: Value,
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("salt")
    }
}

impl Object for Salt {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        let (salt, name) = (Arc::clone(self), name.to_owned());
        Some(match name.contains('.') {
            // It is undefined, so that `is defined` and `in` may ask.
            true if !FUNCTIONS.contains(&name.as_str()) => return None,
            true => Value::from_object(Function { salt, name }),
            false => Value::from_object(Module { salt, name }),
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&FUNCTIONS)
    }
}

/// A module of functions: `salt.pillar`.
struct Module {
    salt: Arc<Salt>,
    name: String,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Object for Module {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = format!("{}.{}", self.name, key.as_str()?);
        FUNCTIONS.contains(&name.as_str()).then(|| {
            let salt = Arc::clone(&self.salt);
            Value::from_object(Function { salt, name })
        })
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        self.salt
            .run(state, &format!("{}.{method}", self.name), args)
    }
}

/// One function.
struct Function {
    salt: Arc<Salt>,
    name: String,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Object for Function {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.salt.run(state, &self.name, args)
    }
}

impl Salt {
    fn run(&self, state: &State<'_, '_>, name: &str, args: &[Value]) -> Result<Value, Error> {
        state.consume_fuel(8)?;
        let (rest, named): (Rest<Value>, Kwargs) = minijinja::value::from_args(args)?;
        let rest: Vec<Value> = rest.iter().map(|value| self.printer.text(value)).collect();
        let mut given = Given {
            rest: rest.into_iter(),
            named,
        };
        let found = match name {
            "grains.get" => self.get(&mut given, &[&self.grains]),
            "pillar.get" => self.get(&mut given, &[&self.pillar]),
            "config.get" => self.get(&mut given, &[&self.opts, &self.grains, &self.pillar]),
            "grains.filter_by" => self.filter_by(&mut given),
            _ => Err(invalid(not_there(name))),
        }?;
        given.named.assert_all_used()?;
        Ok(found)
    }

    /// Returns the value at a path, from the first of these mappings that has it, or a default.
    fn get(&self, given: &mut Given, mappings: &[&Value]) -> Result<Value, Error> {
        let path = given.take("key")?.unwrap_or_default();
        let default = given.take("default")?.unwrap_or_else(|| Value::from(""));
        let merge = given.take("merge")?.is_some_and(|merge| merge.is_true());
        let delimiter = given.take("delimiter")?;
        let delimiter = delimiter.as_ref().and_then(Value::as_str).unwrap_or(":");
        let path = match path.as_str() {
            Some(path) => path.to_owned(),
            None => path.to_string(),
        };
        let found = mappings
            .iter()
            .find_map(|mapping| value_at(mapping, &path, delimiter));
        match found {
            Some(found) if merge && found.kind() == ValueKind::Map => merged(&default, &found, 0),
            Some(found) => Ok(found),
            None => Ok(default),
        }
    }

    /// Chooses an entry of a mapping by the value of a grain, as Salt's `grains.filter_by` does.
    fn filter_by(&self, given: &mut Given) -> Result<Value, Error> {
        let choices = given.take("lookup_dict")?.unwrap_or_default();
        let grain = given.take("grain")?;
        let grain = grain
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or("os_family");
        let merge = given.take("merge")?.filter(|value| value.is_true());
        let default = given
            .take("default")?
            .unwrap_or_else(|| Value::from("default"));
        let base = given.take("base")?;
        let choices = entries(&choices)?;
        let choice = |name: &Value| {
            let mut found = choices.iter();
            // As texts: a grain that is a number finds the key of YAML that says it.
            let name = python_text(name)?;
            found
                .find(|(own, _)| python_text(own).is_some_and(|own| own == name))
                .map(|(_, value)| value.clone())
        };
        let own = value_at(&self.grains, grain, ":");
        let own = own.as_ref().and_then(|own| match own.kind() {
            ValueKind::Seq => own.try_iter().ok()?.find_map(|own| choice(&own)),
            _ => choice(own),
        });
        let mut chosen = own.or_else(|| choice(&default)).unwrap_or_default();
        if let Some(base) = base.as_ref().and_then(choice) {
            chosen = match chosen.kind() {
                ValueKind::Map => merged(&base, &chosen, 0)?,
                _ => base,
            };
        }
        match merge {
            Some(merge) if chosen.kind() == ValueKind::Map => merged(&chosen, &merge, 0),
            Some(merge) => Ok(merge),
            None if chosen.is_undefined() => Ok(Value::from(())),
            None => Ok(chosen),
        }
    }
}

/// The arguments of a call that no parameter took so far.
struct Given {
    rest: std::vec::IntoIter<Value>,
    named: Kwargs,
}

impl Given {
    /// Takes the next positional argument, or the one with this name.
    fn take(&mut self, name: &str) -> Result<Option<Value>, Error> {
        match self.rest.next() {
            Some(value) => Ok(Some(value)),
            None => self.named.get(name),
        }
    }
}

/// Returns the value at a path such as `a:b:0`.
fn value_at(value: &Value, path: &str, delimiter: &str) -> Option<Value> {
    let mut value = value.clone();
    if delimiter.is_empty() {
        return None;
    }
    for part in path.split(delimiter) {
        let found = match value.kind() {
            ValueKind::Map => value.get_item(&Value::from(part)).ok()?,
            ValueKind::Seq => value.get_item_by_index(part.parse().ok()?).ok()?,
            _ => return None,
        };
        if found.is_undefined() {
            return None;
        }
        value = found;
    }
    Some(value)
}

/// Returns the entries of both mappings, one in the other; those of `over` count.
fn merged(under: &Value, over: &Value, depth: usize) -> Result<Value, Error> {
    let are_maps = under.kind() == ValueKind::Map && over.kind() == ValueKind::Map;
    if !are_maps || depth > crate::containers::MAX_DEPTH {
        return Ok(over.clone());
    }
    let mut all: indexmap::IndexMap<Value, Value> = entries(under)?.into_iter().collect();
    for (key, value) in entries(over)? {
        let value = match all.get(&key) {
            Some(own) => merged(own, &value, depth + 1)?,
            None => value,
        };
        all.insert(key, value);
    }
    Ok(Mapping::of(all))
}
