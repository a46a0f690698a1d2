//! The nodegroups of a master's configuration: names for target expressions.

use std::collections::BTreeMap;

use saline_data::nearest;

use super::error::{TargetError, TargetProblem};
use super::expression::{Expression, Term};
use super::{MAX_DEPTH, Target, TargetKind, compiled, parser};

/// How a nodegroup is written in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodegroupDefinition {
    /// A compound expression.
    Expression(String),
    /// The words of the definition in a list, each of which may hold spaces. Without any operator among them
    /// they are the names of minions, or globs, of which any may match.
    Words(Vec<String>),
}

/// The reason why nodegroups cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodegroupError {
    /// The definition of one is malformed.
    #[error("has a wrong definition of {group:?}: {source}")]
    Malformed {
        /// The nodegroup.
        group: String,
        /// The reason.
        source: TargetError,
    },
    /// Nodegroups name each other in a circle.
    #[error("has groups that name each other in a circle: {}", .0.join(" → "))]
    Circle(Vec<String>),
}

/// The nodegroups of a master. Their definitions are checked, and name no other nodegroup any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodegroups(BTreeMap<String, Expression>);

impl Nodegroups {
    /// Checks the definitions, and puts them in the place of each other's names.
    ///
    /// # Errors
    /// See [`NodegroupError`].
    pub fn new(definitions: BTreeMap<String, NodegroupDefinition>) -> Result<Self, NodegroupError> {
        let mut parsed = BTreeMap::new();
        for (group, definition) in definitions {
            let read = match &definition {
                NodegroupDefinition::Expression(text) => {
                    Target::check_length(text).and_then(|()| parser::parse(text))
                }
                NodegroupDefinition::Words(words) => parser::parse_words(words),
            };
            let checked = read.and_then(|expression| {
                compiled::compile(&expression)?;
                Ok(expression)
            });
            match checked {
                Ok(expression) => parsed.insert(group, expression),
                Err(source) => return Err(NodegroupError::Malformed { group, source }),
            };
        }
        let mut finished = Self::default();
        for group in parsed.keys() {
            finished.finish(group, &parsed, &mut Vec::new())?;
        }
        Ok(finished)
    }

    /// Finishes a nodegroup after those that it names.
    fn finish(
        &mut self,
        group: &str,
        parsed: &BTreeMap<String, Expression>,
        path: &mut Vec<String>,
    ) -> Result<(), NodegroupError> {
        let (false, Some(expression)) = (self.0.contains_key(group), parsed.get(group)) else {
            // Finished before, or unknown, which `expand` tells.
            return Ok(());
        };
        let seen = path.iter().position(|before| before == group);
        path.push(group.to_owned());
        if let Some(first) = seen {
            return Err(NodegroupError::Circle(path.split_off(first)));
        }
        let malformed = |source| NodegroupError::Malformed {
            group: group.to_owned(),
            source,
        };
        if path.len() > MAX_DEPTH {
            return Err(malformed(TargetProblem::TooDeep.at(0)));
        }
        let mut named = Vec::new();
        expression.each_term(&mut |term: &Term| {
            if term.kind == TargetKind::Nodegroup {
                named.push(term.pattern.clone());
            }
        });
        for other in named {
            self.finish(&other, parsed, path)?;
        }
        path.pop();
        let expanded = expression.expand(self).map_err(malformed)?;
        // Together they may nest too deeply, or be too much.
        compiled::compile(&expanded).map_err(malformed)?;
        self.0.insert(group.to_owned(), expanded);
        Ok(())
    }

    /// Returns the definition of a nodegroup.
    pub fn get(&self, group: &str) -> Option<&Expression> {
        self.0.get(group)
    }

    /// Returns the names of the nodegroups in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Expression {
    /// Puts the definitions of nodegroups in the place of their names.
    ///
    /// # Errors
    /// When a nodegroup is unknown, or the result has too many terms or nests too deeply.
    pub fn expand(&self, nodegroups: &Nodegroups) -> Result<Self, TargetError> {
        self.replace(&|term| match term.kind {
            // A definition holds no nodegroups any more.
            TargetKind::Nodegroup => match nodegroups.get(&term.pattern) {
                Some(definition) => Ok(Some(definition.clone())),
                None => {
                    let near = nearest(&term.pattern, nodegroups.names()).map(str::to_owned);
                    let group = term.pattern.clone();
                    Err(TargetProblem::UnknownNodegroup { group, near }.at(term.at))
                }
            },
            _ => Ok(None),
        })
    }
}
