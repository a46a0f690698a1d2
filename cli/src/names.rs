//! Writes a list of names inside a sentence.

use saline_protocol::printable::escape_line;

/// The largest number of names that are written.
const MOST_NAMED: usize = 20;

/// Returns the first names, and the number of the others.
pub(crate) fn listed<N: AsRef<str>>(names: &[N]) -> String {
    let named = names.iter().take(MOST_NAMED);
    let named: Vec<_> = named.map(|name| escape_line(name.as_ref())).collect();
    match names.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
