//! Shell globs, compiled within bounds: an expression of a peer must not choose how much memory or stack that
//! takes.

use globset::GlobBuilder;
use regex::bytes::{Regex, RegexBuilder};

use super::{MAX_PATTERN, PatternError};

/// The memory in bytes that a compiled glob may take.
const SIZE_LIMIT: usize = 10 * 1024 * 1024;

/// How deeply alternatives in braces may nest.
const MAX_BRACES: usize = 100;

/// A compiled shell glob: `web*`, `m00[0-2]`, `{a,b}?`. A `/` is a character as any other, and nothing escapes.
#[derive(Debug, Clone)]
pub struct Glob(Regex);

impl Glob {
    /// Compiles a glob.
    ///
    /// # Errors
    /// When the glob is malformed, too long, or nests too deeply.
    pub fn compile(text: &str) -> Result<Self, PatternError> {
        Self::compile_with(text, false, SIZE_LIMIT)
    }

    /// Compiles a glob that takes at most so many bytes of memory.
    pub(super) fn compile_with(
        text: &str,
        ignore_case: bool,
        size_limit: usize,
    ) -> Result<Self, PatternError> {
        if text.len() > MAX_PATTERN {
            return Err(PatternError::TooLong(text.len()));
        }
        let error = |message: String| PatternError::Glob(message);
        // globset goes down one call for each.
        if braces(text) > MAX_BRACES {
            return Err(error(format!("braces nest deeper than {MAX_BRACES}")));
        }
        let glob = GlobBuilder::new(text)
            .literal_separator(false)
            .backslash_escape(false)
            .empty_alternates(true)
            .build()
            // Without the glob itself, which may have line breaks; a range in it is named all the same.
            .map_err(|source| error(source.kind().to_string().replace(char::is_control, " ")))?;
        // globset's own matcher panics when this does not fit.
        RegexBuilder::new(glob.regex())
            .dot_matches_new_line(true)
            .case_insensitive(ignore_case)
            .size_limit(size_limit)
            .dfa_size_limit(size_limit)
            .build()
            .map(Self)
            .map_err(|_| error(format!("it takes more than {size_limit} bytes of memory")))
    }

    /// Whether the glob matches all of `text`.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

/// Returns how deeply braces nest at most; those in a class of characters count too.
fn braces(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_matches_is_what_globset_matches(
            glob in "[ab/?*!,{}.\\[\\]-]{0,12}",
            text in "[ab/\n.-]{0,6}",
        ) {
            let theirs = GlobBuilder::new(&glob)
                .literal_separator(false)
                .backslash_escape(false)
                .empty_alternates(true)
                .build();
            let ours = Glob::compile(&glob);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok());
            if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                prop_assert_eq!(ours.matches(&text), theirs.compile_matcher().is_match(&text));
            }
        }
    }

    #[test]
    fn the_longest_globs_compile_or_say_why_not() {
        for part in [
            "?", "*", "**/", "[!a]", "[a-z]", "{a,b}", "{", "}", ",", "ä", "[[]",
        ] {
            let text = part.repeat(MAX_PATTERN / part.len());
            if let Ok(glob) = Glob::compile(&text) {
                let _ = glob.matches("web1");
            }
        }
        assert!(Glob::compile(&("{".repeat(100) + &"}".repeat(100))).is_ok());
    }
}
