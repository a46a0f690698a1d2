//! Why a target expression cannot be used, and the place in it.

use std::fmt;

use super::{MAX_DEPTH, MAX_EXPRESSION, MAX_PARTS, MAX_PATTERN, MAX_TERMS};

/// The largest number of characters of an expression that a [picture](TargetError::picture) shows.
const PICTURE_WIDTH: usize = 72;

/// The reason why a target expression cannot be used, and the place in it. Displayed in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetError {
    /// The reason.
    pub problem: TargetProblem,
    /// The place: a number of bytes from the beginning of the expression.
    pub at: usize,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            // These are no mistakes in the expression.
            TargetProblem::Empty
            | TargetProblem::Range
            | TargetProblem::Compound { .. }
            | TargetProblem::UnknownNodegroup { .. } => write!(f, "{}", self.problem),
            _ => write!(f, "the target is malformed: {}", self.problem),
        }
    }
}

impl std::error::Error for TargetError {}

/// The reason why a target expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetProblem {
    /// The expression is empty.
    #[error("the target is empty; '*' names all minions")]
    Empty,
    /// A list of ids has none.
    #[error("this list names nobody")]
    EmptyList,
    /// The expression is longer than [`MAX_EXPRESSION`].
    #[error("it has {0} bytes, and the most are {MAX_EXPRESSION}")]
    TooLong(usize),
    /// The expression has more than [`MAX_TERMS`] terms.
    #[error("it has more than {MAX_TERMS} terms")]
    TooManyTerms,
    /// The expression nests deeper than [`MAX_DEPTH`].
    #[error("parentheses and `not` nest deeper than {MAX_DEPTH}")]
    TooDeep,
    /// A term is missing after an operator, or at the beginning.
    #[error("expected a term after `{0}`")]
    TermExpectedAfter(&'static str),
    /// An operator that stands between terms has none before it.
    #[error("expected a term before `{0}`")]
    TermExpectedBefore(&'static str),
    /// Two terms have no operator between them.
    #[error("expected `and` or `or` before this term")]
    OperatorExpected,
    /// A parenthesis is not closed.
    #[error("this `(` has no `)`")]
    NotClosed,
    /// A parenthesis was never opened.
    #[error("this `)` has no `(`")]
    NotOpened,
    /// A quotation mark has no counterpart.
    #[error("this quotation mark has no second one")]
    QuoteNotClosed,
    /// Something follows a quoted term without a space.
    #[error("expected a space after the quotation mark")]
    SpaceExpected,
    /// The term has letters before an `@` that name no kind of target.
    #[error("`{}@` is not a kind of target; these are: G@, P@, E@, L@, S@, N@, A@, I@ and J@", .0.escape_debug())]
    UnknownKind(String),
    /// A glob over ids looks like a compound expression.
    #[error(
        "`{}` is a compound target: add -C (tgt_type=compound){}",
        expression.escape_debug(),
        option.as_ref().map(|option| format!(", or write {}", option.escape_debug())).unwrap_or_default()
    )]
    Compound {
        /// The beginning of the expression.
        expression: String,
        /// The option for the kind of its only term, and the pattern.
        option: Option<String>,
    },
    /// The term has nothing after its `@`.
    #[error("expected a pattern after the `@`")]
    PatternExpected,
    /// A grain's term has no delimiter.
    #[error(
        "expected a grain and a pattern with `{delimiter}` between them, as in os{delimiter}Debian",
        delimiter = .0.escape_debug()
    )]
    GrainWithoutPattern(char),
    /// A term over what is assigned has no delimiter.
    #[error(
        "expected `roles` or an attribute and a pattern with `{delimiter}` between them, as in roles{delimiter}web",
        delimiter = .0.escape_debug()
    )]
    AssignedWithoutPattern(char),
    /// A term over pillar has no delimiter.
    #[error(
        "expected a key of the pillar and a pattern with `{delimiter}` between them, as in role{delimiter}web",
        delimiter = .0.escape_debug()
    )]
    PillarWithoutPattern(char),
    /// A grain's term has more than [`MAX_PARTS`] parts.
    #[error("a grain's term has at most {MAX_PARTS} parts")]
    TooManyParts,
    /// The patterns have more than [`MAX_PATTERN`] bytes together; that of a grain counts from each of its
    /// delimiters on.
    #[error(
        "its globs and regular expressions have {0} bytes together, and the most are {MAX_PATTERN}"
    )]
    PatternsTooLong(usize),
    /// The network or address is malformed.
    #[error(
        "{0:?} is neither an IP address nor a network: write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32"
    )]
    Network(String),
    /// The network has bits of an address behind its prefix.
    #[error("{given} is an address in the network {network}: write one or the other")]
    HostBits {
        /// The text that was given.
        given: String,
        /// The network in which it is.
        network: String,
    },
    /// Salt's ranges do not exist.
    #[error("Saline has no range servers (-R, R@); a list (-L) or a nodegroup (-N) names minions")]
    Range,
    /// The master's configuration has no such nodegroup.
    #[error(
        "the master's configuration has no nodegroup {group:?}{}",
        .near.as_ref().map(|near| format!(": did you mean {near}?")).unwrap_or_default()
    )]
    UnknownNodegroup {
        /// The name that was given.
        group: String,
        /// The nodegroup that was probably meant.
        near: Option<String>,
    },
    /// A glob or a regular expression is malformed.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

/// The reason why a glob or a regular expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern is longer than [`MAX_PATTERN`].
    #[error("a glob or a regular expression has at most {MAX_PATTERN} bytes, not {0}")]
    TooLong(usize),
    /// The text is no valid glob.
    #[error("not a glob: {0}")]
    Glob(String),
    /// The text is no valid regular expression.
    #[error("not a regular expression: {reason}")]
    Regex {
        /// The reason.
        reason: String,
        /// The place in it, in bytes.
        at: usize,
    },
}

impl TargetProblem {
    /// Puts the problem at a place.
    pub(super) fn at(self, at: usize) -> TargetError {
        TargetError { problem: self, at }
    }
}

impl PatternError {
    /// Puts the problem of a pattern that stands at `at` into its expression.
    pub(super) fn within(self, at: usize) -> TargetError {
        let inside = match &self {
            Self::Regex { at, .. } => *at,
            _ => 0,
        };
        TargetProblem::Pattern(self).at(at + inside)
    }
}

impl TargetError {
    /// Returns two lines: the part of `expression` around the place, and a caret under it; none where no place in
    /// it is wrong. Characters that would not take one column stand as `?`.
    pub fn picture(&self, expression: &str) -> Option<String> {
        if matches!(
            self.problem,
            TargetProblem::Empty
                | TargetProblem::TooLong(_)
                | TargetProblem::PatternsTooLong(_)
                | TargetProblem::Compound { .. }
        ) {
            return None;
        }
        let characters: Vec<char> = expression
            .chars()
            .map(|c| match c {
                ' '..='~' => c,
                c if c.is_control() => '?',
                c => c,
            })
            .collect();
        let place = expression
            .char_indices()
            .take_while(|(at, _)| *at < self.at)
            .count();
        let first = match characters.len() > PICTURE_WIDTH {
            true => place
                .saturating_sub(PICTURE_WIDTH / 2)
                .min(characters.len() - PICTURE_WIDTH),
            false => 0,
        };
        let shown = characters[first..].iter().take(PICTURE_WIDTH);
        let is_cut = characters.len() - first > PICTURE_WIDTH;
        let before = if first > 0 { "…" } else { "" };
        let line: String = shown.collect();
        Some(format!(
            "  {before}{line}{}\n  {}^",
            if is_cut { "…" } else { "" },
            " ".repeat(place - first + before.chars().count())
        ))
    }
}

/// A regular expression with look-around took too many steps on a text, so that nobody knows whether it
/// matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the regular expression takes too many steps: make it simpler")]
pub struct TooManySteps;
