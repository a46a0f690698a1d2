//! Entries of one mapping put over those of another.

use saline_functions::Mapping;

/// Puts entries into a mapping, in the place of those with the same names.
pub(crate) fn merge_entries(into: &mut Mapping, entries: Mapping) {
    for (name, value) in entries {
        match into.iter_mut().find(|(known, _)| *known == name) {
            Some(entry) => entry.1 = value,
            None => into.push((name, value)),
        }
    }
}
