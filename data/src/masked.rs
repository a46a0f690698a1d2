//! Values shown without what they say.

use super::Value;

/// The text that replaces a value which is not shown.
pub const MASK: &str = "**********";

/// Returns a value whose keys and lists can be seen, and of which nothing else can: each scalar but null is [`MASK`].
#[must_use]
pub fn masked(value: Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::List(members) => Value::List(members.into_iter().map(masked).collect()),
        Value::Map(entries) => {
            let entries = entries.into_iter();
            Value::Map(entries.map(|(key, value)| (key, masked(value))).collect())
        }
        _ => MASK.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    #[test]
    fn keys_and_lengths_can_be_seen_and_nothing_else() {
        let value = yaml::parse("{a: {b: secret, c: [1, true, 2.5], d: null}, e: []}").unwrap();
        let expected =
            "{a: {b: '**********', c: ['**********', '**********', '**********'], d: null}, e: []}";
        assert_eq!(masked(value), yaml::parse(expected).unwrap());
    }
}
