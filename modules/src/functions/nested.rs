//! Values within values: how functions find them and merge them.

use saline_data::Value;

/// Looks a path up: mappings by name, and lists by number, or by name in the first of their mappings that has it.
pub(super) fn lookup(value: &Value, key: &str, delimiter: &str) -> Option<Value> {
    let delimiter = match delimiter {
        "" => ":",
        delimiter => delimiter,
    };
    let mut here = value;
    for part in key.split(delimiter) {
        here = match here {
            Value::Map(_) => here.get(part)?,
            Value::List(values) => match part.parse::<usize>() {
                Ok(number) => values.get(number)?,
                Err(_) => values.iter().find_map(|value| value.get(part))?,
            },
            _ => return None,
        };
    }
    Some(here.clone())
}

/// Merges `over` over `base`: mappings entry by entry, and lists one behind the other where `lists` says so, without values that are
/// there already. Anything else replaces what was there.
pub(super) fn merged(base: Value, over: Value, lists: bool) -> Value {
    match (base, over) {
        (Value::Map(mut base), Value::Map(over)) => {
            for (name, value) in over {
                match base.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, old)) => *old = merged(std::mem::take(old), value, lists),
                    None => base.push((name, value)),
                }
            }
            Value::Map(base)
        }
        (Value::List(base), Value::List(over)) if lists => Value::List(joined(base, over)),
        (_, over) => over,
    }
}

/// Returns the values of `base`, and those of `more` that are not among them.
pub(super) fn joined(mut base: Vec<Value>, more: Vec<Value>) -> Vec<Value> {
    for value in more {
        if !base.contains(&value) {
            base.push(value);
        }
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_into_mappings_and_lists() {
        let value = Value::map([
            ("a", Value::map([("b:c", Value::Int(1))])),
            (
                "l",
                Value::List(vec![
                    Value::from("first"),
                    Value::map([("x", Value::Int(2))]),
                    Value::map([("x", Value::Int(3)), ("y", Value::Int(4))]),
                ]),
            ),
        ]);
        let find = |key, delimiter| lookup(&value, key, delimiter);
        assert_eq!(find("a|b:c", "|"), Some(Value::Int(1)));
        assert_eq!(find("a:b:c", ":"), None);
        assert_eq!(find("l:0", ""), Some(Value::from("first")));
        assert_eq!(find("l:x", ":"), Some(Value::Int(2)));
        assert_eq!(find("l:y", ":"), Some(Value::Int(4)));
        for none in ["l:3", "l:z", "l:0:x", "b", ""] {
            assert_eq!(find(none, ":"), None, "{none}");
        }
    }

    #[test]
    fn lists_are_replaced_unless_they_are_merged_too() {
        let list = |numbers: &[i64]| Value::List(numbers.iter().copied().map(Value::Int).collect());
        let base = Value::map([("a", list(&[1, 2])), ("b", Value::Int(1))]);
        let over = Value::map([("a", list(&[2, 3])), ("c", Value::Int(2))]);
        let expected =
            |a: &[i64]| Value::map([("a", list(a)), ("b", Value::Int(1)), ("c", Value::Int(2))]);
        assert_eq!(merged(base.clone(), over.clone(), false), expected(&[2, 3]));
        assert_eq!(merged(base, over, true), expected(&[1, 2, 3]));
    }
}
