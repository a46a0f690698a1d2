//! Says what is wrong with a file whose YAML cannot be read, where the parser's words do not.

use saline_data::yaml::{Position, YamlError};

/// The largest number of characters of a line that an error repeats.
const MAX_SHOWN: usize = 60;

/// Returns `error`, or one that names the mistake that caused it: its line, or the one before or after it, is indented with a
/// tab, or has no colon after the name of an option.
pub(crate) fn explain(text: &str, error: YamlError) -> YamlError {
    let is_content = |(_, line): &(u64, &str)| {
        let content = line.trim_start();
        !content.is_empty() && !content.starts_with('#')
    };
    let lines: Vec<(u64, &str)> = (1..).zip(text.lines()).filter(is_content).collect();
    let before = lines.partition_point(|(line, _)| *line < error.line);
    let around = lines.iter().skip(before.saturating_sub(1)).take(3);
    for &(line, content) in around {
        if let Some(error) = tab_in_indentation(line, content) {
            return error;
        }
        if let Some(message) = without_colon(content) {
            return Position { line, column: 1 }.error(message);
        }
    }
    error
}

/// Returns the error of a text whose first option is indented with a tab, which the parser takes when no other option follows.
pub(crate) fn tab_at_the_beginning(text: &str) -> Option<YamlError> {
    let mut lines = (1..).zip(text.lines());
    let is_content = |(_, line): &(u64, &str)| {
        let content = line.trim_start();
        !content.is_empty() && !content.starts_with('#')
    };
    let (line, content) = lines.find(is_content)?;
    tab_in_indentation(line, content)
}

fn tab_in_indentation(line: u64, content: &str) -> Option<YamlError> {
    let indentation = content.len() - content.trim_start().len();
    let column = content[..indentation].find('\t')? as u64 + 1;
    let message = "the line begins with a tab; YAML is indented with spaces";
    Some(Position { line, column }.error(message))
}

/// Returns what to say of a line that is the name of an option and a value without a colon between them.
fn without_colon(line: &str) -> Option<String> {
    let line = line.trim_end();
    let (name, value) = line.split_once([' ', '='])?;
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) || line.contains(": ") || line.ends_with(':') {
        return None;
    }
    if line.chars().count() > MAX_SHOWN {
        return Some(format!("no colon follows the name {name:?}"));
    }
    let value = value.trim_start_matches([' ', '=']);
    let meant = format!("{name}: {value}");
    Some(format!(
        "{line:?} has no colon after its name; did you mean {meant:?}?"
    ))
}
