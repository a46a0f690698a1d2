//! A target that was parsed once and is matched against minions.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::error::{TargetError, TargetProblem, TooManySteps};
use super::expression::{Expression, Term};
use super::grain_matcher::GrainMatcher;
use super::network_matcher::NetworkMatcher;
use super::pattern::{Pattern, PatternOptions};
use super::pillar::PillarMatches;
use super::{Grains, MAX_PATTERN, Target, TargetKind};

/// The largest number of characters of an expression that an error repeats.
const MAX_SHOWN: usize = 60;

/// A minion against which a target is matched, as far as it is known.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The minion's id.
    pub id: &'a str,
    /// The grains of the minion; none when they are not known.
    pub grains: Option<&'a dyn Grains>,
    /// Which terms of the target the pillar of the minion [matches](CompiledTarget::match_pillar); none when its pillar is not
    /// known.
    pub pillar: Option<PillarMatches>,
}

/// Whether a target includes a minion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inclusion {
    /// The target includes the minion.
    Included,
    /// The target does not include the minion.
    Excluded,
    /// The answer depends on grains or on a pillar that are not known.
    Unknown,
}

/// A target whose expression has been parsed.
#[derive(Debug, Clone)]
pub struct CompiledTarget {
    target: Target,
    matcher: Matcher,
    needs_grains: bool,
    needs_pillar: bool,
}

/// The compiled form of an [`Expression`].
#[derive(Debug, Clone)]
pub(super) enum Matcher {
    /// Matches ids.
    Id(Pattern),
    /// Matches the ids in a list, which is sorted and without duplicates.
    List(Vec<String>),
    Grain(GrainMatcher),
    Network(NetworkMatcher),
    /// Matches pillars: the term with this number among those over pillar.
    Pillar(usize, GrainMatcher),
    /// Stands for a nodegroup, or for what is assigned, which only a master knows.
    MasterOnly,
    Not(Box<Matcher>),
    And(Vec<Matcher>),
    Or(Vec<Matcher>),
}

impl CompiledTarget {
    pub(super) fn new(target: Target, expression: &Expression) -> Result<Self, TargetError> {
        let (mut needs_grains, mut needs_pillar) = (false, false);
        expression.each_term(&mut |term| {
            needs_grains |= term.kind.needs_grains();
            needs_pillar |= term.kind.needs_pillar();
        });
        Ok(Self {
            matcher: compile(expression)?,
            target,
            needs_grains,
            needs_pillar,
        })
    }

    /// Returns the expression as it was typed.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Gives the expression back, to be sent or stored.
    pub fn into_target(self) -> Target {
        self.target
    }

    /// Whether the target looks at grains.
    pub fn needs_grains(&self) -> bool {
        self.needs_grains
    }

    /// Whether the target looks at pillars.
    pub fn needs_pillar(&self) -> bool {
        self.needs_pillar
    }

    /// Whether the target looks at ids and at grains with these names, and at nothing else. Addresses count as something
    /// else, and so do pillars and a term over all grains.
    pub fn looks_only_at(&self, grains: &BTreeSet<String>) -> bool {
        !self.needs_pillar && self.looks_only_at_pillar_and(grains)
    }

    /// Whether the target looks at ids, at pillars and at grains with these names, and at nothing else.
    pub fn looks_only_at_pillar_and(&self, grains: &BTreeSet<String>) -> bool {
        self.matcher.looks_only_at(grains)
    }

    /// Finds out which terms of the target a pillar matches.
    ///
    /// # Errors
    /// When a regular expression takes too many steps.
    pub fn match_pillar(&self, pillar: &dyn Grains) -> Result<PillarMatches, TooManySteps> {
        let mut matches = PillarMatches::default();
        self.matcher.match_pillar(pillar, &mut matches)?;
        Ok(matches)
    }

    /// Decides whether the target includes a minion.
    ///
    /// # Errors
    /// When a regular expression takes too many steps.
    pub fn decide(&self, minion: Candidate<'_>) -> Result<Inclusion, TooManySteps> {
        self.matcher.decide(minion)
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

/// Compiles the terms of an expression, which share a bounded memory and time.
pub(super) fn compile(expression: &Expression) -> Result<Matcher, TargetError> {
    let mut shared = Shared::default();
    let (mut patterns, mut bytes) = (0, 0);
    expression.each_term(&mut |term| match term.kind {
        TargetKind::Glob | TargetKind::Pcre => {
            patterns += 1;
            bytes += term.pattern.len();
        }
        kind if kind.has_delimiter() || kind.needs_pillar() => {
            for size in GrainMatcher::pattern_sizes(term) {
                patterns += 1;
                bytes += size;
            }
        }
        _ => {}
    });
    match bytes > MAX_PATTERN {
        true => Err(TargetProblem::PatternsTooLong(bytes).at(0)),
        false => {
            shared.patterns = patterns;
            compile_sharing(expression, &mut shared)
        }
    }
}

/// What the terms of an expression share.
#[derive(Default)]
struct Shared {
    /// The number of patterns, which share the memory.
    patterns: usize,
    /// The number of the next term over pillar.
    next_pillar: usize,
}

fn compile_sharing(expression: &Expression, shared: &mut Shared) -> Result<Matcher, TargetError> {
    let mut all = |inner: &[Expression]| -> Result<Vec<Matcher>, TargetError> {
        let compiled = inner.iter().map(|one| compile_sharing(one, shared));
        compiled.collect()
    };
    Ok(match expression {
        Expression::And(inner) => Matcher::And(all(inner)?),
        Expression::Or(inner) => Matcher::Or(all(inner)?),
        Expression::Term(term) => match compile_term(term, shared.patterns)? {
            Matcher::Pillar(_, matcher) => {
                let number = shared.next_pillar;
                shared.next_pillar += 1;
                Matcher::Pillar(number, matcher)
            }
            other => other,
        },
        Expression::Not(inner) => Matcher::Not(Box::new(compile_sharing(inner, shared)?)),
    })
}

/// Returns why a glob over ids cannot have an `@`: nearly always it is a compound target, and its option is missing.
fn glob_with_at_sign(expression: &str) -> TargetProblem {
    let kind_of = |word: &str| {
        let letter = word.split_once('@')?.0.chars().next()?;
        TargetKind::from_letter(letter).map(|_| letter)
    };
    let mut words = expression.split([' ', '\t', '\n', '(', ')']);
    let Some(letter) = words.find_map(kind_of) else {
        let (before, _) = expression.split_once('@').unwrap_or_default();
        return TargetProblem::UnknownKind(before.chars().take(20).collect());
    };
    // What follows `G@` is what -G takes.
    let pattern = expression.strip_prefix(letter);
    let pattern = pattern.and_then(|after| after.strip_prefix('@'));
    let has_option = |pattern: &&str| !pattern.is_empty() && !pattern.contains(char::is_whitespace);
    let option = pattern
        .filter(has_option)
        .map(|pattern| format!("-{letter} {pattern}"));
    TargetProblem::Compound {
        expression: shortened(expression),
        option: option.map(|option| shortened(&option)),
    }
}

/// Returns at most the beginning of a text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn compile_term(term: &Term, count: usize) -> Result<Matcher, TargetError> {
    let options = PatternOptions {
        ignore_case: false,
        count,
    };
    let id = |compiled: Result<Pattern, super::PatternError>| {
        compiled
            .map(Matcher::Id)
            .map_err(|error| error.within(term.at))
    };
    match term.kind {
        TargetKind::Glob if term.pattern.contains('@') => {
            Err(glob_with_at_sign(&term.pattern).at(term.at))
        }
        TargetKind::Glob => id(Pattern::glob(&term.pattern, options)),
        TargetKind::Pcre => id(Pattern::regex(&term.pattern, options)),
        TargetKind::List => {
            let mut ids: Vec<String> = term
                .pattern
                .split([',', ' ', '\t', '\n'])
                .filter(|id| !id.is_empty())
                .map(str::to_owned)
                .collect();
            ids.sort_unstable();
            ids.dedup();
            match ids.is_empty() {
                true => Err(TargetProblem::EmptyList.at(term.at)),
                false => Ok(Matcher::List(ids)),
            }
        }
        TargetKind::Grain | TargetKind::GrainPcre => {
            GrainMatcher::compile(term, count).map(Matcher::Grain)
        }
        TargetKind::IpCidr => NetworkMatcher::compile(term).map(Matcher::Network),
        TargetKind::Nodegroup => Ok(Matcher::MasterOnly),
        TargetKind::Assigned => GrainMatcher::compile(term, count).map(|_| Matcher::MasterOnly),
        TargetKind::Pillar | TargetKind::PillarPcre | TargetKind::PillarExact => {
            GrainMatcher::compile(term, count).map(|matcher| Matcher::Pillar(0, matcher))
        }
        // The parser makes no such term.
        TargetKind::Compound => Err(TargetProblem::Empty.at(term.at)),
    }
}

impl Matcher {
    fn looks_only_at(&self, grains: &BTreeSet<String>) -> bool {
        match self {
            Self::Id(_) | Self::List(_) | Self::Pillar(..) => true,
            Self::Grain(matcher) => matcher.grain().is_some_and(|name| grains.contains(name)),
            Self::Network(_) | Self::MasterOnly => false,
            Self::Not(inner) => inner.looks_only_at(grains),
            Self::And(all) | Self::Or(all) => all.iter().all(|one| one.looks_only_at(grains)),
        }
    }

    /// Notes the terms that a pillar matches.
    fn match_pillar(
        &self,
        pillar: &dyn Grains,
        matches: &mut PillarMatches,
    ) -> Result<(), TooManySteps> {
        match self {
            Self::Pillar(number, matcher) => {
                if matcher.matches(pillar)? {
                    matches.note(*number);
                }
                Ok(())
            }
            Self::Not(inner) => inner.match_pillar(pillar, matches),
            Self::And(all) | Self::Or(all) => all
                .iter()
                .try_for_each(|one| one.match_pillar(pillar, matches)),
            Self::Id(_) | Self::List(_) | Self::Grain(_) | Self::Network(_) | Self::MasterOnly => {
                Ok(())
            }
        }
    }

    fn decide(&self, minion: Candidate<'_>) -> Result<Inclusion, TooManySteps> {
        let decided = |includes: bool| match includes {
            true => Inclusion::Included,
            false => Inclusion::Excluded,
        };
        Ok(match self {
            Self::Id(pattern) => decided(pattern.matches(minion.id)?),
            Self::List(ids) => decided(ids.binary_search_by(|x| x.as_str().cmp(minion.id)).is_ok()),
            Self::Grain(matcher) => match minion.grains {
                Some(grains) => decided(matcher.matches(grains)?),
                None => Inclusion::Unknown,
            },
            Self::Network(matcher) => match minion.grains {
                Some(grains) => decided(matcher.matches(grains)),
                None => Inclusion::Unknown,
            },
            Self::Pillar(number, _) => match minion.pillar {
                Some(matches) => decided(matches.has(*number)),
                None => Inclusion::Unknown,
            },
            Self::MasterOnly => Inclusion::Unknown,
            Self::Not(inner) => match inner.decide(minion)? {
                Inclusion::Included => Inclusion::Excluded,
                Inclusion::Excluded => Inclusion::Included,
                Inclusion::Unknown => Inclusion::Unknown,
            },
            Self::And(all) => decide_all(all, minion, Inclusion::Excluded, Inclusion::Included)?,
            Self::Or(all) => decide_all(all, minion, Inclusion::Included, Inclusion::Excluded)?,
        })
    }
}

/// Decides about each until one `decides` about all of them; otherwise they are unknown if one is, or else
/// `without`.
fn decide_all(
    all: &[Matcher],
    minion: Candidate<'_>,
    decides: Inclusion,
    without: Inclusion,
) -> Result<Inclusion, TooManySteps> {
    let decided = all
        .iter()
        .try_fold(without, |so_far, one| match one.decide(minion) {
            Err(error) => ControlFlow::Break(Err(error)),
            Ok(decided) if decided == decides => ControlFlow::Break(Ok(decides)),
            Ok(Inclusion::Unknown) => ControlFlow::Continue(Inclusion::Unknown),
            Ok(_) => ControlFlow::Continue(so_far),
        });
    match decided {
        ControlFlow::Break(decided) => decided,
        ControlFlow::Continue(decided) => Ok(decided),
    }
}
