//! Patterns over texts: globs and regular expressions, each in the form that matches fastest.
//!
//! Regular expressions take linear time (`regex`), but for those with look-around or references to groups, which
//! `fancy-regex` matches with a limit of steps. A minion with which a pattern takes more steps does not match, and
//! the log names it, so that no minion decides about others by what it says of itself.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use super::error::{PatternError, TooManySteps};
use super::{Glob, MAX_PATTERN};

/// How often a regular expression with look-around may backtrack while it matches one text.
const BACKTRACKS: usize = 10_000;

/// The memory in bytes that the compiled regular expressions and globs of one target may take, each an equal
/// share.
const MEMORY: usize = 16 * 1024 * 1024;

/// The least and the largest share of one regular expression.
const REGEX_SHARES: (usize, usize) = (64 * 1024, 1024 * 1024);

/// The least and the largest share of one glob.
const GLOB_SHARES: (usize, usize) = (64 * 1024, 10 * 1024 * 1024);

/// How the patterns of a target are compiled.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatternOptions {
    /// Whether letters match in either case.
    pub(super) ignore_case: bool,
    /// The number of patterns that share the memory.
    pub(super) count: usize,
}

impl PatternOptions {
    fn share(self, (least, most): (usize, usize)) -> usize {
        (MEMORY / self.count.max(1)).clamp(least, most)
    }
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// Matches everything.
    Any,
    /// Matches one text.
    Exact(Case),
    /// Matches the texts that begin with this one.
    Prefix(Case),
    /// Matches what the glob matches.
    Glob(Glob),
    /// Matches the texts whose beginning the regular expression matches.
    Regex(Regex),
    /// The same, for an expression with look-around or references to its groups.
    LookAround(Box<fancy_regex::Regex>),
}

/// A text, and whether letters match it in either case. Then it has only ASCII.
#[derive(Debug, Clone)]
pub(super) struct Case {
    text: String,
    ignored: bool,
}

impl Pattern {
    /// Compiles a shell glob, which matches whole texts.
    pub(super) fn glob(text: &str, options: PatternOptions) -> Result<Self, PatternError> {
        match simple_glob(text, options.ignore_case) {
            Some(simple) => Ok(simple),
            None => {
                let limit = options.share(GLOB_SHARES);
                Glob::compile_with(text, options.ignore_case, limit).map(Self::Glob)
            }
        }
    }

    /// Compiles a text that stands for itself.
    pub(super) fn exact(text: &str, options: PatternOptions) -> Result<Self, PatternError> {
        match options.ignore_case && !text.is_ascii() {
            true => Self::regex(&format!("{}$", regex::escape(text)), options),
            false => Ok(Self::Exact(Case {
                text: text.to_owned(),
                ignored: options.ignore_case,
            })),
        }
    }

    /// Compiles a regular expression, which matches the beginnings of texts as Python's `re.match` does.
    pub(super) fn regex(text: &str, options: PatternOptions) -> Result<Self, PatternError> {
        if text.len() > MAX_PATTERN {
            return Err(PatternError::TooLong(text.len()));
        }
        let limit = options.share(REGEX_SHARES);
        let anchored = format!("^(?:{text})");
        let plain = RegexBuilder::new(&anchored)
            .case_insensitive(options.ignore_case)
            .size_limit(limit)
            .dfa_size_limit(limit)
            .build();
        match plain {
            Ok(regex) => Ok(Self::Regex(regex)),
            Err(error) => match refusal(text) {
                Refusal::NeedsBacktracking => backtracking(text, &anchored, options, limit),
                Refusal::Malformed { reason, at } => Err(PatternError::Regex { reason, at }),
                Refusal::Unknown => Err(PatternError::Regex {
                    reason: match error {
                        regex::Error::CompiledTooBig(limit) => {
                            format!("it takes more than {limit} bytes of memory")
                        }
                        other => last_line(&other.to_string()),
                    },
                    at: 0,
                }),
            },
        }
    }

    /// Whether matching may take more than linear time, up to a limit.
    pub(super) fn may_backtrack(&self) -> bool {
        matches!(self, Self::LookAround(_))
    }

    /// Whether the pattern matches the text.
    pub(super) fn matches(&self, text: &str) -> Result<bool, TooManySteps> {
        Ok(match self {
            Self::Any => true,
            Self::Exact(Case { text: one, ignored }) => match ignored {
                true => one.eq_ignore_ascii_case(text),
                false => one == text,
            },
            Self::Prefix(Case { text: one, ignored }) => match ignored {
                true => text
                    .as_bytes()
                    .get(..one.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(one.as_bytes())),
                false => text.starts_with(one.as_str()),
            },
            Self::Glob(glob) => glob.matches(text),
            Self::Regex(regex) => regex.is_match(text),
            Self::LookAround(regex) => regex.is_match(text).map_err(|_| TooManySteps)?,
        })
    }
}

/// Returns a matcher of the globs that most targets have, each of which every minion compiles: `*`, an id,
/// and the beginning of ids. They need no regular expression.
pub(super) fn simple_glob(text: &str, ignore_case: bool) -> Option<Pattern> {
    let is_plain = |text: &str| !text.contains(['*', '?', '[', ']', '{', '}']);
    if ignore_case && !text.is_ascii() {
        return None;
    }
    let case = |text: &str| Case {
        text: text.to_owned(),
        ignored: ignore_case,
    };
    match text.strip_suffix('*') {
        Some("") => Some(Pattern::Any),
        Some(start) if is_plain(start) => Some(Pattern::Prefix(case(start))),
        None if is_plain(text) => Some(Pattern::Exact(case(text))),
        _ => None,
    }
}

/// The reason why `regex` does not compile an expression.
pub(super) enum Refusal {
    NeedsBacktracking,
    Malformed { reason: String, at: usize },
    Unknown,
}

pub(super) fn refusal(text: &str) -> Refusal {
    use regex_syntax::ast::ErrorKind;
    match regex_syntax::Parser::new().parse(text) {
        Ok(_) => Refusal::Unknown,
        Err(regex_syntax::Error::Parse(error)) => match error.kind() {
            ErrorKind::UnsupportedLookAround | ErrorKind::UnsupportedBackreference => {
                Refusal::NeedsBacktracking
            }
            kind => Refusal::Malformed {
                reason: kind.to_string(),
                at: error.span().start.offset,
            },
        },
        Err(regex_syntax::Error::Translate(error)) => Refusal::Malformed {
            reason: error.kind().to_string(),
            at: error.span().start.offset,
        },
        Err(_) => Refusal::Unknown,
    }
}

/// Compiles an expression that cannot be matched in linear time.
fn backtracking(
    text: &str,
    anchored: &str,
    options: PatternOptions,
    limit: usize,
) -> Result<Pattern, PatternError> {
    let compile = |text: &str| {
        fancy_regex::RegexBuilder::new(text)
            .case_insensitive(options.ignore_case)
            .backtrack_limit(BACKTRACKS)
            .delegate_size_limit(limit)
            .delegate_dfa_size_limit(limit)
            .build()
    };
    // The place of an error is one in the text itself.
    let compiled = compile(text).and_then(|_| compile(anchored));
    let error = match compiled {
        Ok(regex) => return Ok(Pattern::LookAround(Box::new(regex))),
        Err(error) => error,
    };
    let (reason, at) = match &error {
        fancy_regex::Error::ParseError(at, reason) => (Cow::from(reason.to_string()), *at),
        other => (Cow::from(last_line(&other.to_string())), 0),
    };
    let at = (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    Err(PatternError::Regex {
        reason: reason.replace(char::is_control, " "),
        at: at.unwrap_or(0),
    })
}

/// Returns the last line of an error, which names it; the lines before it draw a picture.
fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim().to_owned()
}
