//! Writes a list of names inside a sentence.

use std::fmt::Display;

use saline_data::printable::escape_line;

/// The largest number of names that are written.
const MAX_NAMED: usize = 20;

/// Returns the first names, and the number of the others.
pub(crate) fn listed<N: Display>(names: &[N]) -> String {
    let named = names.iter().take(MAX_NAMED);
    let named: Vec<_> = named
        .map(|name| escape_line(&name.to_string()).into_owned())
        .collect();
    match names.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Returns the number of minions, and their names as [`listed`] writes them.
pub(crate) fn counted<N: Display>(minions: &[N]) -> String {
    let noun = match minions.len() {
        1 => "minion",
        _ => "minions",
    };
    format!("{} {noun} ({})", minions.len(), listed(minions))
}
