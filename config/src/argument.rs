//! Parses the arguments that an operator types after a function, as Salt does.

use saline_data::Value;
use saline_messages::Arguments;

use saline_data::yaml;

/// Parses one word as a value, as Salt's `yamlify_arg` does.
///
/// The word is YAML, except that no typed character is lost. These words stay text: empty or blank
/// ones; words with a tab or a line break; words that are not YAML; a mapping
/// without braces (`a: b`, `foo:`) and a list without brackets (`- a`); words with a `#`
/// outside of brackets and braces; words that begin with `&`; dates and times; numbers with underscores or
/// with more than 64 bits; words that YAML reads as empty text, except `''` and `""`. `None` is
/// null, as `null` and `~` are.
pub fn parse_argument(text: &str) -> Value {
    value_of(text).unwrap_or_else(|| Value::Text(text.to_owned()))
}

fn value_of(text: &str) -> Option<Value> {
    if text == "None" {
        return Some(Value::Null);
    }
    let trimmed = text.trim();
    let digits = trimmed.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if matches!(trimmed, "" | "---" | "...")
        || text.contains(['\t', '\r', '\n'])
        || trimmed.starts_with('&')
        // Salt's arguments are never bytes: such a word stays as it was typed.
        || trimmed.starts_with("!!binary")
        || (digits && trimmed.contains('_'))
    {
        return None;
    }
    let value = yaml::parse(text).ok()?;
    let keep = match &value {
        Value::Map(_) => text.starts_with('{'),
        Value::List(_) => text.starts_with('['),
        _ if text.contains('#') => false,
        Value::Text(parsed) if parsed.is_empty() => matches!(trimmed, "''" | "\"\""),
        Value::Null => matches!(trimmed, "~" | "null" | "Null" | "NULL"),
        _ => true,
    };
    keep.then_some(value)
}

/// All the words after a function. `name=value` is a named argument whose value is read as
/// [`parse_argument`] does; of two with the same name the later one counts. A name is a letter or
/// an underscore and then letters, digits and underscores. As in Salt, `name==value` and words
/// with a line break are positional.
pub fn parse_arguments(words: &[String]) -> Arguments {
    let mut arguments = Arguments::default();
    for word in words {
        let Some((name, value)) = split_named(word) else {
            arguments.positional.push(parse_argument(word));
            continue;
        };
        let value = parse_argument(value);
        match arguments.named.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => arguments.named.push((name.to_owned(), value)),
        }
    }
    arguments
}

/// Parses all the words after `function` as [`parse_arguments`] does, except that the command of `cmd.*`
/// stays the text that was typed: `cmd.run yes` runs `yes`, and not `True`. The command is the first
/// positional argument, or `cmd=…`; of the latter, a list stays a list, which runs without a shell. `cmd.which_bin` has no command:
/// its argument is a list of names.
pub fn parse_call(function: &str, words: &[String]) -> Arguments {
    let mut arguments = parse_arguments(words);
    if !function.starts_with("cmd.") || function == "cmd.which_bin" {
        return arguments;
    }
    let typed = words.iter().find(|word| split_named(word).is_none());
    if let (Some(command), Some(typed)) = (arguments.positional.first_mut(), typed) {
        *command = Value::Text(typed.clone());
    }
    let typed = words.iter().rev().filter_map(|word| split_named(word));
    let typed = typed.into_iter().find(|(name, _)| *name == "cmd");
    let command = arguments.named.iter_mut().find(|(name, _)| name == "cmd");
    if let (Some((_, command)), Some((_, typed))) = (command, typed)
        && !matches!(command, Value::List(_))
    {
        *command = Value::Text(typed.to_owned());
    }
    arguments
}

/// Returns the name and the value of a word `name=value`; none for a positional one.
pub fn split_named(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let is_value = !value.starts_with('=') && !value.contains('\n');
    (is_name && is_value).then_some((name, value))
}
