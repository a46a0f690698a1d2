//! Terms over pillar. Only a master has the pillars of minions, so it finds out which terms each one matches, and puts ids in
//! the place of the terms: what is searched for in pillars reaches no minion.

use std::borrow::Cow;
use std::cell::Cell;

use saline_data::MASK;

use super::error::TargetError;
use super::expression::{Expression, Term};
use super::{MAX_TERMS, Target, TargetKind};

const WORDS: usize = MAX_TERMS.div_ceil(64);

/// Returns the pattern of a term over pillar without what it searches for.
fn masked_pattern(pattern: &str, delimiter: char) -> String {
    match pattern.split_once(delimiter) {
        Some((key, _)) => format!("{key}{delimiter}{MASK}"),
        None => MASK.to_owned(),
    }
}

/// Which terms over pillar of one target the pillar of a minion matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PillarMatches([u64; WORDS]);

impl PillarMatches {
    /// Notes that the term with this number matches. No target has a larger number.
    pub(super) fn note(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / 64) {
            *word |= 1 << (number % 64);
        }
    }

    /// Whether the term with this number matches.
    pub(super) fn has(&self, number: usize) -> bool {
        let word = self.0.get(number / 64);
        word.is_some_and(|word| word & 1 << (number % 64) != 0)
    }
}

impl Target {
    /// Whether the target has terms over pillar, apart from those of nodegroups.
    pub fn has_pillar_terms(&self) -> bool {
        match self.kind {
            TargetKind::Compound => self.parse().is_ok_and(|expression| {
                let mut names = false;
                expression.each_term(&mut |term| names |= term.kind.needs_pillar());
                names
            }),
            kind => kind.needs_pillar(),
        }
    }

    /// Returns the expression as it may be written down: of each term over pillar it has the first key, and what is searched for is
    /// masked. One that is malformed is masked whole if it may have such a term.
    pub fn masked(&self) -> Cow<'_, str> {
        if self.kind.needs_pillar() {
            return masked_pattern(&self.expression, ':').into();
        }
        let may_have_term = |letter: char| {
            let mut words = self.expression.split('@');
            words.next_back();
            words.any(|before| before.contains(letter))
        };
        if self.kind != TargetKind::Compound || !['I', 'J'].into_iter().any(may_have_term) {
            return self.expression.as_str().into();
        }
        let masked = self.parse().and_then(|expression| {
            expression.replace(&|term| {
                Ok(term.kind.needs_pillar().then(|| {
                    Expression::Term(Term {
                        pattern: masked_pattern(&term.pattern, term.delimiter),
                        ..term.clone()
                    })
                }))
            })
        });
        masked.map_or(MASK.into(), |expression| expression.to_string().into())
    }

    /// Replaces the terms over pillar with ids. `included` are the minions that the target includes, with the terms that their pillars
    /// match. Where the target looks at grains too, the result must be sent to these minions alone: a term that matches all of them
    /// becomes `*`. Otherwise the result is the list of these minions.
    ///
    /// # Errors
    /// When the expression is malformed, or too long with the ids.
    pub fn replace_pillar_terms(
        self,
        included: &[(&str, Option<PillarMatches>)],
    ) -> Result<Self, TargetError> {
        let expression = self.parse()?;
        let (mut needs_grains, mut needs_pillar) = (false, false);
        expression.each_term(&mut |term| {
            needs_grains |= term.kind.needs_grains();
            needs_pillar |= term.kind.needs_pillar();
        });
        if !needs_pillar {
            return Ok(self);
        }
        let expression = match needs_grains {
            false => Ids::of(included.iter().map(|(id, _)| *id), None).expression(0),
            true => {
                let next = Cell::new(0);
                expression.replace(&|term| {
                    if !term.kind.needs_pillar() {
                        return Ok(None);
                    }
                    let number = next.replace(next.get() + 1);
                    let matching = included
                        .iter()
                        .filter(|(_, matches)| matches.is_some_and(|matches| matches.has(number)));
                    let ids = matching.map(|(id, _)| *id);
                    Ok(Some(Ids::of(ids, Some(included.len())).expression(term.at)))
                })?
            }
        };
        let target = match &expression {
            Expression::Term(term) if term.kind == TargetKind::List => Self {
                kind: TargetKind::List,
                expression: term.pattern.clone(),
            },
            other => Self {
                kind: TargetKind::Compound,
                expression: other.to_string(),
            },
        };
        Self::check_length(&target.expression)?;
        Ok(target)
    }
}

/// The minions that take the place of a term.
struct Ids<'a> {
    ids: Vec<&'a str>,
    /// Whether these are all for which the target is meant.
    are_all: bool,
}

impl<'a> Ids<'a> {
    fn of(ids: impl Iterator<Item = &'a str>, all: Option<usize>) -> Self {
        let ids: Vec<&str> = ids.collect();
        Self {
            are_all: all == Some(ids.len()),
            ids,
        }
    }

    fn expression(&self, at: usize) -> Expression {
        let term = |kind, pattern: String| {
            Expression::Term(Term {
                kind,
                delimiter: ':',
                pattern,
                at,
            })
        };
        let everybody = || term(TargetKind::Glob, "*".to_owned());
        match self.ids.is_empty() {
            true => Expression::Not(Box::new(everybody())),
            false if self.are_all => everybody(),
            false => term(TargetKind::List, self.ids.join(",")),
        }
    }
}
