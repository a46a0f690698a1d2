//! The values of secret arguments, which no failure of a function shows.

use saline_data::Value;
use saline_messages::{ArgumentPlace, Arguments};

use super::Outcome;

/// What stands in the place of a value.
const HIDDEN: &str = "(secret)";

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
                if text.contains(value.as_str()) {
                    *text = text.replace(value.as_str(), HIDDEN);
                }
            }
        }
        outcome
    }
}
