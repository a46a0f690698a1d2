//! Target expressions: parsed once, matched on both sides.

use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::message::MinionId;

/// The longest expression in bytes. A list of 10,000 ids of 100 characters fits.
pub const MAX_EXPRESSION: usize = 1024 * 1024;

/// The memory in bytes that a compiled regular expression may take.
const REGEX_SIZE_LIMIT: usize = 1024 * 1024;

/// How an expression is read. Salt's `tgt_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TargetKind {
    /// A shell glob over ids: `web*`, `m00[0-2]`.
    Glob,
    /// Ids with commas or spaces between them.
    List,
    /// A regular expression that matches from the beginning of an id, as Salt's `pcre` does.
    Pcre,
}

impl TargetKind {
    /// Salt's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Glob => "glob",
            Self::List => "list",
            Self::Pcre => "pcre",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Glob, Self::List, Self::Pcre]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// Whom a job is for, as it was typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// How to read it.
    pub kind: TargetKind,
    /// The expression.
    pub expression: String,
}

/// Why an expression cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Nothing to match.
    #[error("the target is empty")]
    Empty,
    /// Longer than [`MAX_EXPRESSION`].
    #[error("a target has at most {MAX_EXPRESSION} bytes, not {0}")]
    TooLong(usize),
    /// Not a glob.
    #[error("not a glob: {0}")]
    Glob(String),
    /// Not a regular expression.
    #[error("not a regular expression: {0}")]
    Regex(String),
}

impl Target {
    /// A glob.
    pub fn glob(expression: impl Into<String>) -> Self {
        Self {
            kind: TargetKind::Glob,
            expression: expression.into(),
        }
    }

    /// Reads the expression.
    ///
    /// # Errors
    /// When it is not one of its kind, or too long.
    pub fn compile(&self) -> Result<Matcher, TargetError> {
        let text = self.expression.as_str();
        if text.len() > MAX_EXPRESSION {
            return Err(TargetError::TooLong(text.len()));
        }
        if text.trim().is_empty() {
            return Err(TargetError::Empty);
        }
        Ok(Matcher(match self.kind {
            TargetKind::Glob => {
                let glob = GlobBuilder::new(text)
                    .literal_separator(false)
                    .backslash_escape(false)
                    .empty_alternates(true)
                    .build()
                    .map_err(|error| TargetError::Glob(error.to_string()))?;
                Inner::Glob(glob.compile_matcher())
            }
            TargetKind::List => {
                let mut ids: Vec<String> = text
                    .split([',', ' ', '\t', '\n'])
                    .filter(|id| !id.is_empty())
                    .map(str::to_owned)
                    .collect();
                ids.sort_unstable();
                ids.dedup();
                if ids.is_empty() {
                    return Err(TargetError::Empty);
                }
                Inner::List(ids)
            }
            TargetKind::Pcre => {
                let regex = RegexBuilder::new(&format!("^(?:{text})"))
                    .size_limit(REGEX_SIZE_LIMIT)
                    .build()
                    // Only the last line says what is wrong; the others draw a picture of it.
                    .map_err(|error| {
                        let text = error.to_string();
                        TargetError::Regex(
                            text.lines().last().unwrap_or_default().trim().to_owned(),
                        )
                    })?;
                Inner::Pcre(regex)
            }
        }))
    }
}

/// A target that has been read.
#[derive(Debug, Clone)]
pub struct Matcher(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Glob(GlobMatcher),
    List(Vec<String>),
    Pcre(Regex),
}

impl Matcher {
    /// Whether the minion of that id is meant.
    pub fn matches(&self, id: &MinionId) -> bool {
        match &self.0 {
            Inner::Glob(glob) => glob.is_match(id.as_str()),
            Inner::List(ids) => ids
                .binary_search_by(|x| x.as_str().cmp(id.as_str()))
                .is_ok(),
            Inner::Pcre(regex) => regex.is_match(id.as_str()),
        }
    }

    /// The names in a list, in order; nothing for other kinds. The command line tells which of
    /// them nobody knows.
    pub fn listed(&self) -> &[String] {
        match &self.0 {
            Inner::List(ids) => ids,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(kind: TargetKind, expression: &str, id: &str) -> bool {
        let target = Target {
            kind,
            expression: expression.into(),
        };
        target
            .compile()
            .unwrap()
            .matches(&MinionId::parse(id).unwrap())
    }

    #[test]
    fn globs_match_as_fnmatch_does() {
        use TargetKind::Glob;
        assert!(matches(Glob, "*", "web.example.com"));
        assert!(matches(Glob, "m00[0-2]", "m001"));
        assert!(!matches(Glob, "m00[!0-2]", "m001"));
        assert!(matches(Glob, "m?", "m1"));
        assert!(!matches(Glob, "m", "m1"));
    }

    #[test]
    fn regular_expressions_match_from_the_beginning() {
        use TargetKind::Pcre;
        assert!(matches(Pcre, "m00[89]", "m008"));
        assert!(matches(Pcre, "m0", "m008"));
        assert!(!matches(Pcre, "00", "m008"));
        assert!(!matches(Pcre, "x|y", "my"));
    }

    #[test]
    fn lists_take_commas_and_spaces() {
        use TargetKind::List;
        assert!(matches(List, "a,b c", "c"));
        assert!(!matches(List, "a,b", "c"));
    }

    #[test]
    fn what_cannot_be_read_says_why_in_one_line() {
        for (kind, text) in [
            (TargetKind::Glob, "a[b"),
            (TargetKind::Pcre, "("),
            (TargetKind::List, " , "),
            (TargetKind::Glob, ""),
            (TargetKind::Pcre, "(((a{100}){100}){100})"),
        ] {
            let target = Target {
                kind,
                expression: text.into(),
            };
            let error = target.compile().unwrap_err().to_string();
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_expression_is_read_or_refused(text in "\\PC{0,60}", id in "[a-z0-9]{1,10}") {
            for kind in [TargetKind::Glob, TargetKind::List, TargetKind::Pcre] {
                let target = Target { kind, expression: text.clone() };
                if let Ok(matcher) = target.compile() {
                    let _ = matcher.matches(&MinionId::parse(&id).unwrap());
                }
            }
        }
    }
}
