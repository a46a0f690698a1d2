//! What the master's administrator says of minions: roles and attributes, assigned to globs of ids.
//!
//! What is assigned to a minion follows from its id alone. So the master puts the globs that make a term over it true
//! in the place of the term, as it does with nodegroups, and a minion matches its own id.

use std::collections::{BTreeMap, BTreeSet};

use saline_data::Value;

use super::TargetKind;
use super::error::{PatternError, TargetError};
use super::expression::{Expression, Term};
use super::grain_matcher::GrainMatcher;
use super::pattern::{Pattern, PatternOptions};

/// The name under which terms find the roles, beside the attributes.
pub const ROLES: &str = "roles";

/// The characters that stand for others in a glob.
const WILDCARDS: [char; 8] = ['*', '?', '[', ']', '{', '}', '!', ','];

/// What is assigned to the minions whose ids a glob matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The glob, or an id.
    pub glob: String,
    /// The file, line and column of the glob, for errors.
    pub place: String,
    /// The roles.
    pub roles: BTreeSet<String>,
    /// The attributes by name; none is called [`ROLES`].
    pub attributes: BTreeMap<String, Attribute>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// The value.
    pub value: Value,
    /// The file, line and column of the value, for errors.
    pub place: String,
}

/// The reason why assignments cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssignmentError {
    /// The text is no glob of ids.
    #[error("{place}: {glob:?} is not a valid glob of minion ids: {why}")]
    Glob {
        /// The place of the glob.
        place: String,
        /// The text.
        glob: String,
        /// The reason.
        why: String,
    },
    /// Two globs that match one id give it two values of one attribute.
    #[error(
        "{later}: attribute {attribute:?} of minion {id} has another value here than at {earlier}; \
         a minion has one value of each attribute"
    )]
    Conflict {
        /// The attribute.
        attribute: String,
        /// An id that both globs match.
        id: String,
        /// The place of the value that was read first.
        earlier: String,
        /// The place of the value that was read later.
        later: String,
    },
}

/// What is assigned to minions. Several globs may match one id; then it has the roles and the attributes of all.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    entries: Vec<Entry>,
    /// The entries whose globs are ids, by these.
    by_id: BTreeMap<String, Vec<usize>>,
    /// The entries of the other globs.
    by_glob: Vec<usize>,
}

/// An assignment that was checked.
#[derive(Debug, Clone)]
struct Entry {
    assignment: Assignment,
    pattern: Pattern,
    /// The roles and attributes, as terms look at them.
    value: Value,
}

impl Assignments {
    /// Checks the assignments, which stand in the order in which they were read.
    ///
    /// # Errors
    /// `Glob` for a malformed glob. `Conflict` when two of them give an id two values of one attribute, as far as that
    /// follows from the globs without their classes and alternatives: [`of`](Self::of) tells the other conflicts.
    pub fn new(assignments: Vec<Assignment>) -> Result<Self, AssignmentError> {
        let mut checked = Self::default();
        for assignment in assignments {
            let number = checked.entries.len();
            let pattern = compile(&assignment.glob).map_err(|why| AssignmentError::Glob {
                place: assignment.place.clone(),
                glob: assignment.glob.clone(),
                why,
            })?;
            match assignment.glob.contains(WILDCARDS) {
                true => checked.by_glob.push(number),
                false => {
                    let of_id = checked.by_id.entry(assignment.glob.clone());
                    of_id.or_default().push(number);
                }
            }
            let value = as_value([&assignment]);
            checked.entries.push(Entry {
                assignment,
                pattern,
                value,
            });
        }
        for entry in &checked.entries {
            if let Some(id) = matched_id(entry) {
                checked.of(&id)?;
            }
        }
        Ok(checked)
    }

    /// Returns what is assigned to the minion with this id: a mapping of [`ROLES`] to a list, if it has any, and of the
    /// names of attributes to their values.
    ///
    /// # Errors
    /// `Conflict` when two globs give it two values of one attribute.
    pub fn of(&self, id: &str) -> Result<Value, AssignmentError> {
        let mut matching: Vec<usize> = self.by_id.get(id).cloned().unwrap_or_default();
        matching.extend(self.by_glob.iter().filter(|number| {
            let pattern = &self.entries[**number].pattern;
            // No glob backtracks.
            pattern.matches(id).unwrap_or(false)
        }));
        matching.sort_unstable();
        let matching = matching.iter().map(|n| &self.entries[*n].assignment);
        let mut seen: BTreeMap<&str, &Attribute> = BTreeMap::new();
        for (name, later) in matching.clone().flat_map(|one| &one.attributes) {
            let earlier = *seen.entry(name).or_insert(later);
            if earlier.value != later.value {
                return Err(AssignmentError::Conflict {
                    attribute: name.clone(),
                    id: id.to_owned(),
                    earlier: earlier.place.clone(),
                    later: later.place.clone(),
                });
            }
        }
        Ok(as_value(matching))
    }

    /// Returns everything that is assigned to anybody: all roles, and each attribute with one of its values.
    pub fn of_anybody(&self) -> Value {
        as_value(self.entries.iter().map(|entry| &entry.assignment))
    }

    /// Returns the expression over ids that takes the place of a term over what is assigned.
    ///
    /// # Errors
    /// When the term is malformed.
    pub(super) fn expression(&self, term: &Term) -> Result<Expression, TargetError> {
        let matcher = GrainMatcher::compile(term, 1)?;
        let make = |kind, pattern: &str| {
            Expression::Term(Term {
                kind,
                delimiter: ':',
                pattern: pattern.to_owned(),
                at: term.at,
            })
        };
        // Such a term is a glob, which never backtracks.
        let matches = |number: &usize| {
            let value = &self.entries[*number].value;
            matcher.matches(value).unwrap_or(false)
        };
        let ids: Vec<&str> = self
            .by_id
            .iter()
            .filter(|(_, numbers)| numbers.iter().any(matches))
            .map(|(id, _)| id.as_str())
            .collect();
        let globs: BTreeSet<&str> = self
            .by_glob
            .iter()
            .filter(|number| matches(number))
            .map(|number| self.entries[*number].assignment.glob.as_str())
            .collect();
        let mut any: Vec<Expression> = globs
            .into_iter()
            .map(|glob| make(TargetKind::Glob, glob))
            .collect();
        if !ids.is_empty() {
            any.push(make(TargetKind::List, &ids.join(",")));
        }
        Ok(match any.len() {
            0 => Expression::Not(Box::new(make(TargetKind::Glob, "*"))),
            1 => any.remove(0),
            _ => Expression::Or(any),
        })
    }
}

impl Expression {
    /// Puts globs of ids in the place of terms over what is assigned to minions.
    ///
    /// # Errors
    /// When such a term is malformed, or the result has too many terms or nests too deeply.
    pub(super) fn put_assigned(&self, assignments: &Assignments) -> Result<Self, TargetError> {
        self.replace(&|term| match term.kind {
            TargetKind::Assigned => assignments.expression(term).map(Some),
            _ => Ok(None),
        })
    }
}

impl PartialEq for Assignments {
    /// The rest follows from what was given.
    fn eq(&self, other: &Self) -> bool {
        let theirs = other.entries.iter().map(|entry| &entry.assignment);
        self.entries
            .iter()
            .map(|entry| &entry.assignment)
            .eq(theirs)
    }
}

/// Compiles a glob of ids, or says why it is none.
fn compile(glob: &str) -> Result<Pattern, String> {
    let is_allowed = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') || WILDCARDS.contains(&c)
    };
    if glob.is_empty() || !glob.chars().all(is_allowed) {
        return Err(
            "ids have letters, digits, dots, dashes and underscores, and globs * ? [ ] { }"
                .to_owned(),
        );
    }
    if glob.contains(',') && !glob.contains('{') {
        return Err("write {web1,web2}, or each id by itself".to_owned());
    }
    let options = PatternOptions {
        ignore_case: false,
        count: 1,
    };
    Pattern::glob(glob, options).map_err(|error: PatternError| error.to_string())
}

/// Returns an id that the glob of this entry matches, where one is easily found.
fn matched_id(entry: &Entry) -> Option<String> {
    let id = entry.assignment.glob.replace('*', "").replace('?', "a");
    let matches = !id.is_empty() && entry.pattern.matches(&id) == Ok(true);
    matches.then_some(id)
}

/// Returns the roles and the attributes of these together.
fn as_value<'a>(assignments: impl IntoIterator<Item = &'a Assignment>) -> Value {
    let (mut roles, mut attributes) = (BTreeSet::new(), BTreeMap::new());
    for assignment in assignments {
        roles.extend(assignment.roles.iter().map(String::as_str));
        for (name, attribute) in &assignment.attributes {
            attributes.insert(name.clone(), attribute.value.clone());
        }
    }
    if !roles.is_empty() {
        attributes.insert(ROLES.to_owned(), Value::texts(roles));
    }
    Value::Map(attributes.into_iter().collect())
}
