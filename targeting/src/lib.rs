//! Target expressions: which minions a job is for.
//!
//! A [`Target`] travels as text. Each side that needs to match it compiles it once, by way of the tree of an
//! [`Expression`], and hands the [`CompiledTarget`] on.

mod assignments;
mod compiled;
mod error;
mod expression;
mod glob;
mod grain_matcher;
mod grains;
mod network_matcher;
mod nodegroups;
mod parser;
mod pattern;
mod pillar;
#[cfg(test)]
mod tests;
mod text_pattern;
mod tokens;

use serde::{Deserialize, Serialize};

pub use assignments::{Assignment, AssignmentError, Assignments, Attribute, ROLES};
pub use compiled::{Candidate, CompiledTarget, Inclusion};
pub use error::{PatternError, TargetError, TargetProblem, TooManySteps};
pub use expression::{Expression, Term};
pub use glob::Glob;
pub use grains::{Grains, GrainsError, MAX_GRAINS, PackedGrains};
pub use nodegroups::{NodegroupDefinition, NodegroupError, Nodegroups};
pub use pillar::PillarMatches;
pub use text_pattern::TextPattern;

/// The longest expression in bytes. A list of 10,000 ids of 100 characters fits.
pub const MAX_EXPRESSION: usize = 1024 * 1024;

/// The longest glob or regular expression in bytes, and the most of all in one target together. Each byte of one
/// takes some hundreds while it is compiled.
pub const MAX_PATTERN: usize = 64 * 1024;

/// The largest number of terms of a compound expression, with those of its nodegroups.
pub const MAX_TERMS: usize = 256;

/// How deeply parentheses, `not` and nodegroups may nest.
pub const MAX_DEPTH: usize = 64;

/// The largest number of parts of a grain's term: its keys, and its pattern.
pub const MAX_PARTS: usize = 32;

/// The language of a target expression, Salt's `tgt_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TargetKind {
    /// A shell glob over ids: `web*`, `m00[0-2]`.
    Glob,
    /// Ids with commas or spaces between them.
    List,
    /// A regular expression that matches from the beginning of an id, as Salt's `pcre` does.
    Pcre,
    /// A shell glob over the values of a grain: `os:Deb*`, `ip_interfaces:eth0:10.*`.
    Grain,
    /// A regular expression over the values of a grain.
    GrainPcre,
    /// An address, or a network in CIDR notation: `192.0.2.7`, `2001:db8::/32`.
    IpCidr,
    /// The name of a nodegroup. Only a master knows them: it publishes their definitions.
    Nodegroup,
    /// Terms of the other kinds with `and`, `or`, `not` and parentheses.
    Compound,
    /// A shell glob over the values of the pillar. Only a master has the pillars: it publishes the ids that match.
    Pillar,
    /// A regular expression over the values of the pillar.
    PillarPcre,
    /// A shell glob over the roles and attributes that the master's administrator assigned: `roles:web`, `site:berlin`.
    /// Salt has no such kind. Only a master knows them: it publishes the globs of ids that they are assigned to.
    Assigned,
    /// A value of the pillar as it is, in either case: nothing in it stands for anything else. It has no letter, as in Salt, so
    /// it is no term of a compound expression, and its delimiter is a colon.
    PillarExact,
}

/// Every kind with Salt's name, where Salt has it, and its letter in a compound expression.
const KINDS: [(TargetKind, &str, Option<char>); 12] = [
    (TargetKind::Glob, "glob", None),
    (TargetKind::List, "list", Some('L')),
    (TargetKind::Pcre, "pcre", Some('E')),
    (TargetKind::Grain, "grain", Some('G')),
    (TargetKind::GrainPcre, "grain_pcre", Some('P')),
    (TargetKind::IpCidr, "ipcidr", Some('S')),
    (TargetKind::Nodegroup, "nodegroup", Some('N')),
    (TargetKind::Compound, "compound", None),
    (TargetKind::Pillar, "pillar", Some('I')),
    (TargetKind::PillarPcre, "pillar_pcre", Some('J')),
    (TargetKind::Assigned, "assigned", Some('A')),
    (TargetKind::PillarExact, "pillar_exact", None),
];

impl TargetKind {
    /// Every kind.
    pub const ALL: [Self; KINDS.len()] = {
        let mut all = [Self::Glob; KINDS.len()];
        let mut at = 0;
        while at < KINDS.len() {
            all[at] = KINDS[at].0;
            at += 1;
        }
        all
    };

    /// Returns the name of this kind: Salt's, where Salt has it.
    pub fn name(self) -> &'static str {
        let found = KINDS.iter().find(|(kind, _, _)| *kind == self);
        found.map_or("", |(_, name, _)| name)
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = KINDS.iter().find(|(_, known, _)| *known == name);
        found.map(|(kind, _, _)| *kind)
    }

    /// Returns the letter of this kind in a compound expression; globs, compounds and exact values of pillar have none.
    pub(crate) fn letter(self) -> Option<char> {
        let found = KINDS.iter().find(|(kind, _, _)| *kind == self);
        found.and_then(|(_, _, letter)| *letter)
    }

    fn from_letter(letter: char) -> Option<Self> {
        let found = KINDS.iter().find(|(_, _, known)| *known == Some(letter));
        found.map(|(kind, _, _)| *kind)
    }

    /// Whether a delimiter stands between the parts of such a term.
    pub fn has_delimiter(self) -> bool {
        matches!(
            self,
            Self::Grain | Self::GrainPcre | Self::Pillar | Self::PillarPcre | Self::Assigned
        )
    }

    /// Whether such a term is about the pillar.
    pub fn needs_pillar(self) -> bool {
        matches!(self, Self::Pillar | Self::PillarPcre | Self::PillarExact)
    }

    fn needs_grains(self) -> bool {
        matches!(self, Self::Grain | Self::GrainPcre | Self::IpCidr)
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

/// A target without what only a master knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The target, as minions get it.
    pub target: Target,
    /// Whether it had a term over what is assigned, or a nodegroup with one.
    pub has_assigned: bool,
}

impl Target {
    /// Creates a shell glob over ids.
    pub fn glob(expression: impl Into<String>) -> Self {
        Self {
            kind: TargetKind::Glob,
            expression: expression.into(),
        }
    }

    /// Creates a list of ids.
    pub fn list<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let ids: Vec<&str> = ids.into_iter().collect();
        Self {
            kind: TargetKind::List,
            expression: ids.join(","),
        }
    }

    /// Creates a term of a kind [with a delimiter](TargetKind::has_delimiter), which is written as a compound
    /// expression when the delimiter is another one than a colon: `G|@key|pattern`.
    pub fn with_delimiter(
        kind: TargetKind,
        expression: impl Into<String>,
        delimiter: char,
    ) -> Self {
        let pattern = expression.into();
        if delimiter == ':' {
            return Self {
                kind,
                expression: pattern,
            };
        }
        let term = Term {
            kind,
            delimiter,
            pattern,
            at: 0,
        };
        Self {
            kind: TargetKind::Compound,
            expression: term.to_string(),
        }
    }

    /// Parses the expression.
    ///
    /// # Errors
    /// When the expression is empty, too long or nests too deeply, or an operator or a parenthesis is at the
    /// wrong place. Patterns are looked at when the target is [compiled](Self::compile).
    pub fn parse(&self) -> Result<Expression, TargetError> {
        let text = self.expression.as_str();
        Self::check_length(text)?;
        match self.kind {
            TargetKind::Compound => parser::parse(text),
            kind => Ok(Expression::Term(Term {
                kind,
                delimiter: ':',
                pattern: text.to_owned(),
                at: 0,
            })),
        }
    }

    fn check_length(text: &str) -> Result<(), TargetError> {
        if text.len() > MAX_EXPRESSION {
            return Err(TargetProblem::TooLong(text.len()).at(0));
        }
        if text.trim().is_empty() {
            return Err(TargetProblem::Empty.at(0));
        }
        Ok(())
    }

    /// Parses the expression, so that it can be matched against minions. A minion is unknown to a nodegroup, and to
    /// what is assigned: [expand](Self::expand) the target first. It is unknown to a term over pillar unless the
    /// [candidate](Candidate) says what its pillar matches.
    ///
    /// # Errors
    /// When the expression is malformed, empty, or too long.
    pub fn compile(self) -> Result<CompiledTarget, TargetError> {
        let expression = self.parse()?;
        CompiledTarget::new(self, &expression)
    }

    /// Puts the definitions of nodegroups in the place of their names, and globs of ids in the place of terms over what
    /// is assigned. The target is then a compound one; without such terms it stays as it is.
    ///
    /// # Errors
    /// When the expression is malformed, or a nodegroup is unknown.
    pub fn expand(
        self,
        nodegroups: &Nodegroups,
        assignments: &Assignments,
    ) -> Result<Expanded, TargetError> {
        let may_have_any = matches!(
            self.kind,
            TargetKind::Nodegroup | TargetKind::Assigned | TargetKind::Compound
        );
        let unchanged = |target| Expanded {
            target,
            has_assigned: false,
        };
        if !may_have_any {
            return Ok(unchanged(self));
        }
        let expression = self.parse()?;
        if !expression.has(TargetKind::Nodegroup) && !expression.has(TargetKind::Assigned) {
            return Ok(unchanged(self));
        }
        // A nodegroup may have terms over what is assigned.
        let expression = expression.expand(nodegroups)?;
        let has_assigned = expression.has(TargetKind::Assigned);
        let target = Self {
            kind: TargetKind::Compound,
            expression: expression.put_assigned(assignments)?.to_string(),
        };
        Self::check_length(&target.expression)?;
        Ok(Expanded {
            target,
            has_assigned,
        })
    }
}
