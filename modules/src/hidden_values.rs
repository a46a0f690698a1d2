//! The values of secret arguments, which no failure of a function shows.

use saline_data::Value;
use saline_messages::{ArgumentPlace, Arguments};

use super::Outcome;

/// What stands in the place of a value.
const HIDDEN: &str = "(secret)";

/// A shorter text is hidden only where it is no part of a word: it says nothing there, and the word would be unreadable.
const LEAST_WITHIN_WORDS: usize = 4;

/// The texts that a failure must not show.
#[derive(Default)]
pub(super) struct HiddenValues(Vec<String>);

impl HiddenValues {
    /// Takes the values in these places of a call's arguments.
    pub(super) fn of(arguments: &Arguments, places: &[ArgumentPlace]) -> Self {
        let mut hidden = Self::default();
        for place in places {
            let value = match place {
                ArgumentPlace::Positional(number) => arguments.positional.get(*number as usize),
                ArgumentPlace::Named(name) => {
                    let mut named = arguments.named.iter();
                    named.find(|(own, _)| own == name).map(|(_, value)| value)
                }
            };
            if let Some(value) = value {
                hidden.add(value);
            }
        }
        // The longest first: one may be a part of another.
        hidden.0.sort_by_key(|text| std::cmp::Reverse(text.len()));
        hidden
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Text(text) => {
                // Errors show texts as they are, or with their quotes escaped.
                let escaped = format!("{text:?}");
                let texts = [text.as_str(), escaped.trim_matches('"')];
                let shown = texts.into_iter().filter(|text| !text.is_empty());
                self.0.extend(shown.map(str::to_owned));
            }
            Value::List(values) => values.iter().for_each(|value| self.add(value)),
            Value::Map(entries) => entries.iter().for_each(|(_, value)| self.add(value)),
            Value::Int(_) | Value::UInt(_) | Value::Float(_) => {
                let shown = saline_data::yaml::as_key(value.clone());
                self.0.push(shown);
            }
            Value::Null | Value::Bool(_) | Value::Bytes(_) => {}
        }
    }

    /// Returns the outcome of a failure without these values.
    pub(super) fn hide_in(&self, mut outcome: Outcome) -> Outcome {
        if let Value::Text(text) = &mut outcome.value {
            for value in &self.0 {
                *text = hidden(text, value);
            }
        }
        outcome
    }
}

/// Returns a text without a value.
fn hidden(text: &str, value: &str) -> String {
    let is_short = value.chars().count() < LEAST_WITHIN_WORDS;
    let is_of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let begins_word = is_of_word(value.chars().next());
    let ends_word = is_of_word(value.chars().next_back());
    let (mut shown, mut from) = (String::with_capacity(text.len()), 0);
    for (at, _) in text.match_indices(value) {
        let end = at + value.len();
        let is_within_word = begins_word && is_of_word(text[..at].chars().next_back())
            || ends_word && is_of_word(text[end..].chars().next());
        if !(is_short && is_within_word) {
            shown.push_str(&text[from..at]);
            shown.push_str(HIDDEN);
            from = end;
        }
    }
    shown.push_str(&text[from..]);
    shown
}

#[cfg(test)]
mod tests {
    use super::hidden;

    #[test]
    fn a_short_secret_is_hidden_as_a_word_alone() {
        for (value, text, expected) in [
            ("e", "the user e is the one", "the user (secret) is the one"),
            ("e", "\"e\": there is none", "\"(secret)\": there is none"),
            ("12", "port 12, not 4123", "port (secret), not 4123"),
            ("1234", "x1234y", "x(secret)y"),
            ("::", "a:: b", "a(secret) b"),
        ] {
            assert_eq!(hidden(text, value), expected, "{value}");
        }
    }
}
