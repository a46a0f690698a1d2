//! Target expressions: which minions a job is for.
//!
//! A [`Target`] travels as text. Each side that needs to match it compiles it once and hands the
//! [`CompiledTarget`] on.

mod glob;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::message::MinionId;

pub use glob::Glob;

/// The longest expression in bytes. A list of 10,000 ids of 100 characters fits.
pub const MAX_EXPRESSION: usize = 1024 * 1024;

/// The longest glob or regular expression in bytes. Each byte of one takes some hundreds while it is compiled.
pub const MAX_PATTERN: usize = 64 * 1024;

/// The memory in bytes that a compiled regular expression may take.
const REGEX_SIZE_LIMIT: usize = 1024 * 1024;

/// The language of a target expression, Salt's `tgt_type`.
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
    /// Returns Salt's name for this kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Glob => "glob",
            Self::List => "list",
            Self::Pcre => "pcre",
        }
    }

    /// Returns the kind with this name of Salt's.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Glob, Self::List, Self::Pcre]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// A target expression, as it was typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The language of the expression.
    pub kind: TargetKind,
    /// The expression.
    pub expression: String,
}

/// Why a target expression cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The expression is empty.
    #[error("the target is empty")]
    Empty,
    /// The expression is longer than [`MAX_EXPRESSION`].
    #[error("a target has at most {MAX_EXPRESSION} bytes, not {0}")]
    TooLong(usize),
    /// A glob or a regular expression is longer than [`MAX_PATTERN`].
    #[error("a glob or a regular expression has at most {MAX_PATTERN} bytes, not {0}")]
    PatternTooLong(usize),
    /// The expression is no valid glob.
    #[error("not a glob: {0}")]
    Glob(String),
    /// The expression is no valid regular expression.
    #[error("not a regular expression: {0}")]
    Regex(String),
}

impl Target {
    /// Creates a shell glob over ids.
    pub fn glob(expression: impl Into<String>) -> Self {
        Self {
            kind: TargetKind::Glob,
            expression: expression.into(),
        }
    }

    /// Parses the expression, so that it can be matched against ids.
    ///
    /// # Errors
    /// When the expression is malformed, empty, or too long.
    pub fn compile(self) -> Result<CompiledTarget, TargetError> {
        let matcher = self.matcher()?;
        Ok(CompiledTarget {
            target: self,
            matcher,
        })
    }

    fn matcher(&self) -> Result<Matcher, TargetError> {
        let text = self.expression.as_str();
        if text.len() > MAX_EXPRESSION {
            return Err(TargetError::TooLong(text.len()));
        }
        if text.trim().is_empty() {
            return Err(TargetError::Empty);
        }
        Ok(match self.kind {
            TargetKind::Glob => match simple_glob(text) {
                Some(simple) => simple,
                None => Matcher::Glob(Glob::compile(text)?),
            },
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
                Matcher::List(ids)
            }
            TargetKind::Pcre if text.len() > MAX_PATTERN => {
                return Err(TargetError::PatternTooLong(text.len()));
            }
            TargetKind::Pcre => {
                let regex = RegexBuilder::new(&format!("^(?:{text})"))
                    .size_limit(REGEX_SIZE_LIMIT)
                    .build()
                    // The last line names the error; the lines before it draw a picture.
                    .map_err(|error| {
                        let text = error.to_string();
                        TargetError::Regex(
                            text.lines().last().unwrap_or_default().trim().to_owned(),
                        )
                    })?;
                Matcher::Pcre(regex)
            }
        })
    }
}

/// Returns a matcher of the globs that most jobs have, each of which every minion compiles: `*`, an id,
/// and the beginning of ids. They need no regular expression.
fn simple_glob(text: &str) -> Option<Matcher> {
    let is_plain = |text: &str| !text.contains(['*', '?', '[', ']', '{', '}']);
    match text.strip_suffix('*') {
        Some(start) if is_plain(start) => Some(Matcher::Prefix(start.to_owned())),
        None if is_plain(text) => Some(Matcher::Id(text.to_owned())),
        _ => None,
    }
}

/// A target whose expression has been parsed.
#[derive(Debug, Clone)]
pub struct CompiledTarget {
    target: Target,
    matcher: Matcher,
}

#[derive(Debug, Clone)]
enum Matcher {
    /// Matches one id.
    Id(String),
    /// Matches the ids that begin with this text.
    Prefix(String),
    Glob(Glob),
    /// Sorted and without duplicates.
    List(Vec<String>),
    Pcre(Regex),
}

impl CompiledTarget {
    /// Returns the expression as it was typed.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Gives the expression back, to be sent or stored.
    pub fn into_target(self) -> Target {
        self.target
    }

    /// Whether the target includes the minion `id`.
    pub fn matches(&self, id: &MinionId) -> bool {
        match &self.matcher {
            Matcher::Id(only) => only == id.as_str(),
            Matcher::Prefix(start) => id.as_str().starts_with(start.as_str()),
            Matcher::Glob(glob) => glob.matches(id.as_str()),
            Matcher::List(ids) => ids
                .binary_search_by(|x| x.as_str().cmp(id.as_str()))
                .is_ok(),
            Matcher::Pcre(regex) => regex.is_match(id.as_str()),
        }
    }

    /// Returns the names that a list contains, sorted; nothing for other kinds. The master reports
    /// the names for which there is no key.
    pub fn listed(&self) -> &[String] {
        match &self.matcher {
            Matcher::List(ids) => ids,
            _ => &[],
        }
    }
}

impl PartialEq for CompiledTarget {
    /// The parsed form follows from the expression, so only the expressions are compared.
    fn eq(&self, other: &Self) -> bool {
        self.target == other.target
    }
}

impl Eq for CompiledTarget {}

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

    fn nested(levels: usize) -> String {
        "{".repeat(levels) + &"}".repeat(levels)
    }

    #[test]
    fn what_cannot_be_read_says_why_in_one_line() {
        for (kind, text) in [
            (TargetKind::Glob, "a[b"),
            (TargetKind::Glob, "a\n[b"),
            (TargetKind::Glob, "[\n-\t]"),
            (TargetKind::Pcre, "a\n("),
            (TargetKind::Pcre, "("),
            (TargetKind::List, " , "),
            (TargetKind::Glob, ""),
            (TargetKind::Pcre, "(((a{100}){100}){100})"),
            (TargetKind::Glob, "?".repeat(MAX_EXPRESSION).as_str()),
            (TargetKind::Glob, "[!a]".repeat(MAX_EXPRESSION / 4).as_str()),
            (TargetKind::Glob, nested(MAX_EXPRESSION / 2).as_str()),
            (TargetKind::Glob, nested(MAX_PATTERN / 2).as_str()),
            (TargetKind::Pcre, "(".repeat(MAX_PATTERN).as_str()),
            (TargetKind::Pcre, "a|".repeat(MAX_EXPRESSION / 2).as_str()),
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
        fn simple_globs_match_what_globs_match(text in "[ab.-]{0,3}\\*?", id in "[ab.-]{1,4}") {
            if let (Some(_), Ok(id)) = (simple_glob(&text), MinionId::parse(&id))
                && !text.is_empty()
            {
                let compiled = Target::glob(text.clone()).compile().unwrap();
                let glob = Glob::compile(&text).unwrap();
                prop_assert_eq!(compiled.matches(&id), glob.matches(id.as_str()));
            }
        }

        #[test]
        fn any_expression_is_read_or_refused(text in "\\PC{0,60}", id in "[a-z0-9]{1,10}") {
            for kind in [TargetKind::Glob, TargetKind::List, TargetKind::Pcre] {
                let target = Target { kind, expression: text.clone() };
                if let Ok(compiled) = target.compile() {
                    let _ = compiled.matches(&MinionId::parse(&id).unwrap());
                }
            }
        }
    }
}
