//! The tree of a parsed target expression, and how it is written.

use std::fmt;

use super::error::{TargetError, TargetProblem};
use super::{MAX_DEPTH, MAX_TERMS, TargetKind};

/// Returns what takes the place of a term, if anything does.
pub(super) type Define<'a> = dyn Fn(&Term) -> Result<Option<Expression>, TargetError> + 'a;

/// A parsed target expression. Written out it is a compound expression, which is parsed to an equal tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// One condition.
    Term(Term),
    /// Minions that the other expression does not match.
    Not(Box<Expression>),
    /// Minions that all of these match, at least two.
    And(Vec<Expression>),
    /// Minions that any of these matches, at least two.
    Or(Vec<Expression>),
}

/// One condition of a target expression.
#[derive(Debug, Clone)]
pub struct Term {
    /// The language of the pattern; never [`TargetKind::Compound`]; [`TargetKind::PillarExact`] alone.
    pub kind: TargetKind,
    /// The separator between the parts of a grain's term.
    pub delimiter: char,
    /// The pattern.
    pub pattern: String,
    /// The offset of the pattern in the expression that was parsed, in bytes.
    pub at: usize,
}

impl PartialEq for Term {
    /// The place is no part of a term's meaning.
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.delimiter, &self.pattern) == (other.kind, other.delimiter, &other.pattern)
    }
}

impl Eq for Term {}

impl Expression {
    /// Calls `look` with each term.
    pub(super) fn each_term(&self, look: &mut impl FnMut(&Term)) {
        match self {
            Self::Term(term) => look(term),
            Self::Not(inner) => inner.each_term(look),
            Self::And(all) | Self::Or(all) => all.iter().for_each(|inner| inner.each_term(look)),
        }
    }

    /// Whether a term is of this kind.
    pub(super) fn has(&self, kind: TargetKind) -> bool {
        let mut has = false;
        self.each_term(&mut |term| has |= term.kind == kind);
        has
    }

    /// Puts what `define` returns for a term in its place.
    ///
    /// # Errors
    /// When `define` fails, or the result has too many terms or nests too deeply.
    pub(super) fn replace(&self, define: &Define<'_>) -> Result<Self, TargetError> {
        let replaced = self.replaced(define, &mut 0)?;
        match replaced.nesting() <= MAX_DEPTH {
            true => Ok(replaced),
            false => Err(TargetProblem::TooDeep.at(0)),
        }
    }

    fn replaced(&self, define: &Define<'_>, terms: &mut usize) -> Result<Self, TargetError> {
        let all = |inner: &[Self], terms: &mut usize| -> Result<Vec<Self>, TargetError> {
            let replaced = inner.iter().map(|one| one.replaced(define, terms));
            replaced.collect()
        };
        Ok(match self {
            Self::Term(term) => {
                let replaced = define(term)?.unwrap_or_else(|| self.clone());
                replaced.each_term(&mut |_| *terms += 1);
                if *terms > MAX_TERMS {
                    return Err(TargetProblem::TooManyTerms.at(term.at));
                }
                replaced
            }
            Self::Not(inner) => Self::Not(Box::new(inner.replaced(define, terms)?)),
            Self::And(inner) => Self::And(all(inner, terms)?),
            Self::Or(inner) => Self::Or(all(inner, terms)?),
        })
    }

    /// Returns how deeply parentheses and `not` nest when the expression is written out.
    fn nesting(&self) -> usize {
        match self {
            Self::Term(_) => 0,
            Self::Not(inner) => 1 + inner.nesting() + usize::from(self.encloses(inner)),
            Self::And(all) | Self::Or(all) => all
                .iter()
                .map(|inner| inner.nesting() + usize::from(self.encloses(inner)))
                .max()
                .unwrap_or(0),
        }
    }

    /// Whether parentheses stand around `inner` when it is written out as a part of this expression.
    fn encloses(&self, inner: &Self) -> bool {
        match inner {
            Self::Term(_) | Self::Not(_) => false,
            // `and` binds closer.
            Self::And(_) => !matches!(self, Self::Or(_)),
            Self::Or(_) => true,
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |f: &mut fmt::Formatter<'_>, inner: &Self| match self.encloses(inner) {
            true => write!(f, "( {inner} )"),
            false => write!(f, "{inner}"),
        };
        let list = |f: &mut fmt::Formatter<'_>, all: &[Self], operator: &str| {
            for (number, inner) in all.iter().enumerate() {
                if number > 0 {
                    write!(f, " {operator} ")?;
                }
                part(f, inner)?;
            }
            Ok(())
        };
        match self {
            Self::Term(term) => write!(f, "{term}"),
            Self::Not(inner) => {
                f.write_str("not ")?;
                part(f, inner)
            }
            Self::And(all) => list(f, all, "and"),
            Self::Or(all) => list(f, all, "or"),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if let Some(letter) = self.kind.letter() {
            text.push(letter);
            if self.delimiter != ':' {
                text.push(self.delimiter);
            }
            text.push('@');
        }
        text.push_str(&self.pattern);
        if super::tokens::is_one_word(&text) {
            f.write_str(&text)
        } else {
            write!(f, "\"{}\"", text.replace('"', "\"\""))
        }
    }
}
