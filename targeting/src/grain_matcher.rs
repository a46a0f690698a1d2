//! Matches a grain's term, `key:sub:pattern`, against grains, as Salt's `subdict_match` does: keys as they are,
//! values in either case, each member of a list, and every place at which the keys can end and the pattern
//! begin. Terms over pillar, and over what is assigned, match their values in the same way.

use std::borrow::Cow;
use std::cell::Cell;

use super::error::{TargetError, TargetProblem, TooManySteps};
use super::expression::Term;
use super::pattern::{Pattern, PatternOptions};
use super::{Grains, MAX_PARTS, TargetKind};
use saline_data::Value;

/// The number of values of one minion that are matched against backtracking expressions. Each match has a limit of
/// steps of its own, and a minion decides how many values its grains have.
const MAX_BACKTRACKED_VALUES: usize = 1_000;

/// How many more values may be matched against backtracking expressions.
struct ValuesLeft(Cell<usize>);

impl ValuesLeft {
    fn take(&self) -> Result<(), TooManySteps> {
        let left = self.0.get().checked_sub(1).ok_or(TooManySteps)?;
        self.0.set(left);
        Ok(())
    }
}

/// A compiled grain's term.
#[derive(Debug, Clone)]
pub(super) struct GrainMatcher {
    /// The parts between the delimiters, at least two.
    parts: Vec<String>,
    /// For each part the pattern that begins with it and reaches to the end. None for the first part, and for
    /// those where a regular expression cannot begin.
    patterns: Vec<Option<Pattern>>,
    /// For each part the text from it to the end.
    rests: Vec<String>,
    /// Whether keys and values must be as they are written: `*` stands for nothing else.
    is_exact: bool,
}

impl GrainMatcher {
    /// Returns the sizes in bytes of the patterns that the term of a grain has to compile: one from each
    /// delimiter on.
    pub(super) fn pattern_sizes(term: &Term) -> impl Iterator<Item = usize> {
        let delimiters = term.pattern.match_indices(term.delimiter);
        delimiters.map(|(at, delimiter)| term.pattern.len() - at - delimiter.len())
    }

    pub(super) fn compile(term: &Term, count: usize) -> Result<Self, TargetError> {
        let delimiter = term.delimiter;
        let parts: Vec<String> = term.pattern.split(delimiter).map(str::to_owned).collect();
        if parts.len() < 2 || parts[0].is_empty() {
            let problem = match term.kind {
                TargetKind::Assigned => TargetProblem::AssignedWithoutPattern(delimiter),
                kind if kind.needs_pillar() => TargetProblem::PillarWithoutPattern(delimiter),
                _ => TargetProblem::GrainWithoutPattern(delimiter),
            };
            return Err(problem.at(term.at));
        }
        if parts.len() > MAX_PARTS {
            return Err(TargetProblem::TooManyParts.at(term.at));
        }
        let options = PatternOptions {
            ignore_case: true,
            count,
        };
        let mut patterns = vec![None];
        let mut rests = vec![term.pattern.clone()];
        let mut at = parts[0].len() + delimiter.len_utf8();
        for (number, part) in parts.iter().enumerate().skip(1) {
            let rest = &term.pattern[at..];
            let compiled = match term.kind {
                TargetKind::GrainPcre | TargetKind::PillarPcre => Pattern::regex(rest, options),
                TargetKind::PillarExact => Pattern::exact(rest, options),
                _ => Pattern::glob(rest, options),
            };
            patterns.push(match compiled {
                Ok(pattern) => Some(pattern),
                Err(error) if number == 1 => return Err(error.within(term.at + at)),
                // The delimiter stands inside a group or a class, and not between a key and a pattern.
                Err(_) => None,
            });
            rests.push(rest.to_owned());
            at += part.len() + delimiter.len_utf8();
        }
        Ok(Self {
            parts,
            patterns,
            rests,
            is_exact: term.kind == TargetKind::PillarExact,
        })
    }

    /// Returns the name of the grain that the term looks at; none when it looks at all of them.
    pub(super) fn grain(&self) -> Option<&str> {
        match self.parts[0].as_str() {
            "*" => None,
            name => Some(name),
        }
    }

    /// Whether the term matches the grains.
    pub(super) fn matches(&self, grains: &dyn Grains) -> Result<bool, TooManySteps> {
        let left = &ValuesLeft(Cell::new(MAX_BACKTRACKED_VALUES));
        if self.parts[0] == "*" && !self.is_exact {
            return match grains.all().as_ref() {
                Value::Map(entries) => self.map_matches(entries, 0, left),
                _ => Ok(false),
            };
        }
        match grains.grain(&self.parts[0]) {
            Some(value) => self.value_matches(&value, 1, left),
            None => Ok(false),
        }
    }

    /// Whether the parts from `from` on match a value. They go forward with each level of it but one, so the
    /// depth of the calls is bounded by their number.
    fn value_matches(
        &self,
        value: &Value,
        from: usize,
        left: &ValuesLeft,
    ) -> Result<bool, TooManySteps> {
        match value {
            Value::Map(entries) => self.map_matches(entries, from, left),
            Value::List(members) => {
                for member in members {
                    let matches = match member {
                        Value::Map(entries) => self.map_matches(entries, from, left)?,
                        member => self.scalar_matches(member, from, left)?,
                    };
                    if matches {
                        return Ok(true);
                    }
                }
                // A member by its number.
                let member = self.parts[from]
                    .parse()
                    .ok()
                    .and_then(|n: usize| members.get(n));
                match member {
                    Some(member) if from + 1 < self.parts.len() => {
                        self.value_matches(member, from + 1, left)
                    }
                    _ => Ok(false),
                }
            }
            scalar => self.scalar_matches(scalar, from, left),
        }
    }

    fn map_matches(
        &self,
        entries: &[(String, Value)],
        from: usize,
        left: &ValuesLeft,
    ) -> Result<bool, TooManySteps> {
        let rest = self.rests[from].as_str();
        let has_more = from + 1 < self.parts.len();
        if !entries.is_empty() && rest == "*" && !self.is_exact {
            return Ok(true);
        }
        let is_wildcard = has_more && self.parts[from] == "*" && !self.is_exact;
        for (key, value) in entries {
            if key == rest {
                return Ok(true);
            }
            let matches = if is_wildcard {
                match value {
                    Value::Map(entries) => self.map_matches(entries, from + 1, left)?,
                    Value::List(members) => self.any_scalar_matches(members, from + 1, left)?,
                    scalar => self.scalar_matches(scalar, from + 1, left)?,
                }
            } else {
                has_more && *key == self.parts[from] && self.value_matches(value, from + 1, left)?
            };
            if matches {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn any_scalar_matches(
        &self,
        members: &[Value],
        from: usize,
        left: &ValuesLeft,
    ) -> Result<bool, TooManySteps> {
        for member in members {
            if self.scalar_matches(member, from, left)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn scalar_matches(
        &self,
        value: &Value,
        from: usize,
        left: &ValuesLeft,
    ) -> Result<bool, TooManySteps> {
        match (&self.patterns[from], as_text(value)) {
            (Some(pattern), Some(text)) => {
                if pattern.may_backtrack() {
                    left.take()?;
                }
                pattern.matches(&text)
            }
            _ => Ok(false),
        }
    }
}

/// Returns a value as Python writes it; none for lists, mappings and bytes.
fn as_text(value: &Value) -> Option<Cow<'_, str>> {
    Some(match value {
        Value::Text(text) => Cow::Borrowed(text.as_str()),
        Value::Null => Cow::Borrowed("None"),
        Value::Bool(true) => Cow::Borrowed("True"),
        Value::Bool(false) => Cow::Borrowed("False"),
        Value::Int(number) => number.to_string().into(),
        Value::UInt(number) => number.to_string().into(),
        // With a point, also when it is whole.
        Value::Float(number) => format!("{number:?}").into(),
        Value::Bytes(_) | Value::List(_) | Value::Map(_) => return None,
    })
}
