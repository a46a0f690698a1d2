//! The name of an undefined variable that the engine's error does not have.
//!
//! A macro takes the variables with it that it names, also those that are not there; and so it does with arguments that nobody gave. Of
//! such a variable the engine knows later that it is undefined, and not where it came from.

use minijinja::Error;

/// What the engine writes before the variables that the code up to an error names, one on a line.
const VARIABLES: &str = "Referenced variables: {";

/// Returns the name of the undefined variable that an error in this template is about; none if the tag at its place has none.
pub(crate) fn variable(error: &Error, template: &str) -> Option<String> {
    let told = error.display_debug_info().to_string();
    let (_, variables) = told.rsplit_once(VARIABLES)?;
    let undefined = variables.lines().filter_map(|line| {
        let name = line.trim_start();
        name.strip_suffix(": undefined,")
    });
    let undefined: Vec<&str> = undefined.collect();
    let (before, behind) = template.split_at_checked(error.range()?.start)?;
    let first = before.rfind("{{").max(before.rfind("{%"))?;
    let ends = ["}}", "%}"].into_iter().filter_map(|end| behind.find(end));
    let last = before.len() + ends.min()?;
    let found = names(&template[first..last]).find(|name| undefined.contains(name))?;
    Some(found.to_owned())
}

/// Returns the names in a tag that are no part of a text, and are read from no other value.
fn names(tag: &str) -> impl Iterator<Item = &str> {
    let mut left = tag;
    let mut before = ' ';
    std::iter::from_fn(move || {
        loop {
            let first = left.chars().next()?;
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let end = match first {
                '\'' | '"' => left[1..].find(first).map_or(left.len(), |at| at + 2),
                _ if is_part(first) => left.find(|c| !is_part(c)).unwrap_or(left.len()),
                _ => first.len_utf8(),
            };
            let (word, rest) = left.split_at(end);
            let is_name = is_part(first) && before != '.';
            (left, before) = (rest, first);
            if is_name {
                return Some(word);
            }
        }
    })
}
