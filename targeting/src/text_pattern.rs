//! Patterns over whole texts, for rules: names of functions and values of arguments. They match by the same engine as
//! targets, with its bound on steps.

use super::pattern::{Pattern, PatternOptions, Refusal, refusal};
use super::{Glob, PatternError, TooManySteps};

/// How many patterns share the memory of a target: a rule has few.
const SHARES: usize = 64;

/// A pattern over a whole text, written as a glob or as a regular expression.
///
/// ```
/// use saline_targeting::TextPattern;
///
/// let pattern = TextPattern::glob_or_regex("test.(ping|version)").unwrap();
/// assert_eq!(pattern.matches("test.ping"), Ok(true));
/// assert_eq!(pattern.matches("test.ping_all"), Ok(false));
/// assert_eq!(TextPattern::glob_or_regex("*.ping").unwrap().matches("test.ping"), Ok(true));
/// ```
#[derive(Debug, Clone)]
pub struct TextPattern {
    text: String,
    glob: Option<Glob>,
    regex: Option<Pattern>,
}

impl TextPattern {
    /// Compiles a glob.
    ///
    /// # Errors
    /// When it is malformed or too long.
    pub fn glob(text: &str) -> Result<Self, PatternError> {
        Ok(Self {
            text: text.to_owned(),
            glob: Some(Glob::compile(text)?),
            regex: None,
        })
    }

    /// Compiles a regular expression, which has to match a whole text.
    ///
    /// # Errors
    /// When it is malformed or too long.
    pub fn regex(text: &str) -> Result<Self, PatternError> {
        Ok(Self {
            text: text.to_owned(),
            glob: None,
            regex: Some(whole(text)?),
        })
    }

    /// Compiles a pattern that matches what it matches as a glob, and what it matches as a regular expression. One that
    /// is written as a glob alone (`*.ping`) need not be a regular expression.
    ///
    /// # Errors
    /// When it is neither, or too long.
    pub fn glob_or_regex(text: &str) -> Result<Self, PatternError> {
        let glob = Glob::compile(text).ok();
        let regex = match whole(text) {
            Ok(regex) => Some(regex),
            Err(_) if glob.is_some() && is_plain(text) => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            text: text.to_owned(),
            glob,
            regex,
        })
    }

    /// Compiles a pattern that allows no more than its writer meant: one that is written with letters, digits, `_`, `.`,
    /// `-`, `*` and `?` alone is a glob and no regular expression, so that `pkg.*` does not match `pkgrepo.mod`. One that
    /// begins with `.*` is no such glob, since no name begins with a dot. Others are as in [`Self::glob_or_regex`].
    ///
    /// # Errors
    /// When it is neither, or too long.
    pub fn glob_else_regex(text: &str) -> Result<Self, PatternError> {
        if is_plain(text) && !text.starts_with(".*") {
            return Self::glob(text);
        }
        Self::glob_or_regex(text)
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches all of `text`.
    ///
    /// # Errors
    /// When a regular expression takes too many steps.
    pub fn matches(&self, text: &str) -> Result<bool, TooManySteps> {
        if self.glob.as_ref().is_some_and(|glob| glob.matches(text)) {
            return Ok(true);
        }
        self.regex
            .as_ref()
            .map_or(Ok(false), |regex| regex.matches(text))
    }
}

impl PartialEq for TextPattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.glob.is_some()) == (&other.text, other.glob.is_some())
    }
}

/// Whether a text has no character that only a regular expression would have, but those that globs have too.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-*?".contains(c);
    text.chars().all(is_plain)
}

/// Compiles a regular expression that matches whole texts.
fn whole(text: &str) -> Result<Pattern, PatternError> {
    let options = PatternOptions {
        ignore_case: false,
        count: SHARES,
    };
    if let Refusal::Malformed { reason, at } = refusal(text) {
        // Also when it would be well formed inside of the group: nothing in it may end that early.
        return Err(PatternError::Regex { reason, at });
    }
    Pattern::regex(&format!("(?:{text})\\z"), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_text_has_to_match() {
        for (pattern, text, matches) in [
            ("test.ping", "test.ping", true),
            ("test.ping", "test.ping2", false),
            ("test.*", "test.ping", true),
            (".*", "test.ping", true),
            ("*", "test.ping", true),
            ("a|b", "b", true),
            ("a|b", "bc", false),
            ("a|b", "ab", false),
            ("test.(?!ping).*", "test.ping", false),
            ("test.(?!ping).*", "test.echo", true),
            ("test.ping", "test.ping\n", false),
        ] {
            let compiled = TextPattern::glob_or_regex(pattern).unwrap();
            assert_eq!(compiled.matches(text), Ok(matches), "{pattern} {text:?}");
        }
    }

    #[test]
    fn a_rule_that_is_a_glob_matches_nothing_as_a_regular_expression() {
        for (pattern, text, matches) in [
            ("pkg.*", "pkg.install", true),
            ("pkg.*", "pkgrepo.mod", false),
            ("test.ping", "testXping", false),
            ("*.ping", "test.ping", true),
            (".*", "test.ping", true),
            (".*ping", "test.ping", true),
            (r"pkg\..*", "pkg.install", true),
            (r"pkg\..*", "pkgrepo.mod", false),
            ("state.(apply|highstate)", "state.apply", true),
        ] {
            let compiled = TextPattern::glob_else_regex(pattern).unwrap();
            assert_eq!(compiled.matches(text), Ok(matches), "{pattern} {text:?}");
        }
        assert!(TextPattern::glob_else_regex(&"x".repeat(100_000)).is_err());
    }

    #[test]
    fn what_is_neither_is_refused() {
        for wrong in ["test.(ping", "a)|(?:b", "[z-a]", &"x".repeat(100_000)] {
            assert!(TextPattern::glob_or_regex(wrong).is_err(), "{wrong}");
        }
        assert!(TextPattern::regex("*").is_err());
    }
}
