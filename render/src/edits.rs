//! A text with pieces put in other words, and the way back from a place in it to the text as it was.

/// A change of a text: `removed` bytes at `at` give way to `inserted`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The offset in the text as it was, in bytes.
    pub at: usize,
    /// The bytes that go.
    pub removed: usize,
    /// The text that comes.
    pub inserted: String,
}

/// A text after its edits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Edited {
    /// The text.
    pub text: String,
    edits: Vec<Edit>,
}

impl Edited {
    /// Applies edits that do not overlap.
    pub fn new(text: &str, mut edits: Vec<Edit>) -> Self {
        // The sort is stable: what is inserted at one place stays in its order.
        edits.sort_by_key(|edit| edit.at);
        let mut edited = String::with_capacity(text.len() + 64);
        let mut copied = 0;
        for edit in &edits {
            edited.push_str(&text[copied..edit.at]);
            edited.push_str(&edit.inserted);
            copied = edit.at + edit.removed;
        }
        edited.push_str(&text[copied..]);
        Self {
            text: edited,
            edits,
        }
    }

    /// Returns the offset in the text as it was of a place in the edited one. A place within what was inserted is at
    /// the beginning of what it replaced.
    pub fn original(&self, offset: usize) -> usize {
        // What the edits so far added, and removed.
        let (mut added, mut removed) = (0, 0);
        for edit in &self.edits {
            let at = edit.at + added - removed;
            if offset < at {
                break;
            }
            if offset < at + edit.inserted.len() {
                return edit.at;
            }
            added += edit.inserted.len();
            removed += edit.removed;
        }
        offset + removed - added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(at: usize, removed: usize, inserted: &str) -> Edit {
        Edit {
            at,
            removed,
            inserted: inserted.to_owned(),
        }
    }

    #[test]
    fn places_lead_back_to_the_text_as_it_was() {
        let edited = Edited::new("abcdef", vec![edit(4, 1, "XYZ"), edit(1, 2, "-")]);
        assert_eq!(edited.text, "a-dXYZf");
        let places: Vec<usize> = (0..7).map(|at| edited.original(at)).collect();
        assert_eq!(places, [0, 1, 3, 4, 4, 4, 5]);
        assert_eq!(Edited::new("ab", Vec::new()).original(2), 2);
    }
}
