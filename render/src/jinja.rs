//! Filters, tests and functions of Jinja that the engine does not have, or has with fewer arguments.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::{filters, globals};

use crate::containers::{Mapping, entries, invalid, python_text};

/// Adds these filters, tests and functions to the engine.
pub(crate) fn add(environment: &mut Environment<'static>) {
    for name in ["default", "d"] {
        environment.add_filter(name, default);
    }
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_filter(
        "sort",
        |state: &State<'_, '_>, value, args: Rest<Value>, kwargs: Kwargs| {
            let mut named = named(&args, &kwargs, &["reverse", "case_sensitive", "attribute"])?;
            for (name, value) in &mut named {
                // `attribute=1` is the second member.
                if let ("attribute", Some(number)) = (name.as_str(), value.as_usize()) {
                    *value = Value::from(number.to_string());
                }
            }
            minijinja::filters::sort(state, value, Kwargs::from_iter(named))
        },
    );
    environment.add_filter(
        "dictsort",
        |value: Value, args: Rest<Value>, kwargs: Kwargs| {
            let named = named(&args, &kwargs, &["case_sensitive", "by", "reverse"])?;
            minijinja::filters::dictsort(&value, Kwargs::from_iter(named))
        },
    );
    environment.add_filter(
        "truncate",
        |state: &mut State<'_, '_>, value: Value, args: Rest<Value>, kwargs: Kwargs| {
            let named = named(&args, &kwargs, &["length", "killwords", "end", "leeway"])?;
            filters::truncate(state, &value, Kwargs::from_iter(named))
        },
    );
    environment.add_filter("int", |value: Value, args: Rest<Value>, kwargs: Kwargs| {
        let mut named = named(&args, &kwargs, &["default", "base"])?.into_iter();
        let (mut otherwise, mut base) = (Value::from(0), 10);
        named.try_for_each(|(name, value)| {
            match name.as_str() {
                "default" => otherwise = value,
                "base" => base = u32::try_from(value)?,
                _ => return Err(Error::from(ErrorKind::TooManyArguments)),
            }
            Ok(())
        })?;
        if !(2..=36).contains(&base) {
            return Err(invalid("the base of a number is between 2 and 36"));
        }
        Ok(int(&value, base).unwrap_or(otherwise))
    });
    environment.add_filter(
        "float",
        |value: Value, otherwise: Option<Value>, named: Kwargs| {
            let otherwise = match otherwise {
                Some(otherwise) => Some(otherwise),
                None => named.get::<Option<Value>>("default")?,
            };
            named.assert_all_used()?;
            let found = match value.as_str() {
                Some(text) => text.trim().parse::<f64>().ok(),
                None if value.kind() == ValueKind::Bool => {
                    Some(f64::from(u8::from(value.is_true())))
                }
                None => f64::try_from(value).ok(),
            };
            Ok::<_, Error>(match found {
                Some(number) => Value::from(number),
                None => otherwise.unwrap_or_else(|| Value::from(0.0)),
            })
        },
    );
    environment.add_filter("random", |value: Value| {
        let values: Vec<Value> = value.try_iter()?.collect();
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| invalid("the system has no randomness"))?;
        let count = (values.len() as u64).max(1);
        let at = usize::try_from(u64::from_le_bytes(random) % count).unwrap_or_default();
        Ok::<_, Error>(values.get(at).cloned().unwrap_or_default())
    });
    environment.add_filter("wordcount", |value: String| {
        let words = value.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty()).count()
    });
    environment.add_filter("center", |value: String, width: Option<usize>| {
        crate::text_methods::padded(&value, width.unwrap_or(80), ' ', 0.5)
    });
    environment.add_filter("filesizeformat", filters::filesizeformat);
    environment.add_filter("striptags", filters::striptags);
    environment.add_function("dict", |value: Option<Value>, named: Kwargs| {
        let mut all = match value {
            Some(value) => entries(&value)?,
            None => Vec::new(),
        };
        for name in named.args().map(str::to_owned).collect::<Vec<_>>() {
            let value: Value = named.get(&name)?;
            all.push((Value::from(name), value));
        }
        Ok::<_, Error>(Mapping::of(all))
    });
    environment.add_function("cycler", |items: Rest<Value>| {
        globals::cycler(items.to_vec())
    });
    environment.add_function("joiner", globals::joiner);
}

/// Returns the arguments by their names: those that were given without one have these names.
fn named(rest: &[Value], kwargs: &Kwargs, names: &[&str]) -> Result<Vec<(String, Value)>, Error> {
    if rest.len() > names.len() {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut all: Vec<(String, Value)> = Vec::new();
    for (name, value) in names.iter().zip(rest.iter()) {
        all.push(((*name).to_owned(), value.clone()));
    }
    for name in kwargs.args() {
        all.push((name.to_owned(), kwargs.peek(name)?));
    }
    Ok(all)
}

/// Returns the value, or a default if it is undefined (with `boolean`, also if it is false).
fn default(value: Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let (mut otherwise, mut boolean) = (Value::from(""), false);
    for (name, value) in named(&args, &kwargs, &["default_value", "boolean"])? {
        match name.as_str() {
            "default_value" => otherwise = value,
            "boolean" => boolean = value.is_true(),
            _ => return Err(Error::from(ErrorKind::TooManyArguments)),
        }
    }
    match value.is_undefined() || (boolean && !value.is_true()) {
        true => Ok(otherwise),
        false => Ok(value),
    }
}

/// Returns a value as a whole number, as Jinja does: `7` of `'7.9'`. None if it is no number.
fn int(value: &Value, base: u32) -> Option<Value> {
    let whole = |number: f64| (number.abs() < 9e18).then(|| Value::from(number as i64));
    let Some(text) = value.as_str() else {
        return match value.kind() {
            ValueKind::Bool => Some(Value::from(u8::from(value.is_true()))),
            ValueKind::Number if value.is_integer() => Some(value.clone()),
            ValueKind::Number => whole(python_text(value)?.parse().ok()?),
            _ => None,
        };
    };
    let text = text.trim();
    let digits = match base {
        16 => text.strip_prefix("0x").unwrap_or(text),
        8 => text.strip_prefix("0o").unwrap_or(text),
        2 => text.strip_prefix("0b").unwrap_or(text),
        _ => text,
    };
    match i64::from_str_radix(digits, base) {
        Ok(number) => Some(Value::from(number)),
        Err(_) => whole(text.parse().ok()?),
    }
}
