//! The rules of `publisher_acl` and `operators`: which functions somebody may run, on which minions.

use std::collections::BTreeMap;

use saline_data::Value;
use saline_targeting::TextPattern;

/// Who may run what, as one option has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccessRules {
    /// The rules of everybody who is named, in the order of the file.
    pub subjects: Vec<(Subject, Vec<AccessRule>)>,
}

/// The users or operators to whom rules apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The user or the operator of this name.
    Name(String),
    /// The users of this group, written `group%`.
    Group(String),
    /// Everybody who is not named, and in no group that is, written `*`.
    Everybody,
}

/// What one rule allows.
#[derive(Debug, Clone)]
pub struct AccessRule {
    /// The rule as a line, for the audit file.
    pub text: String,
    /// The rule as the file has it, for users who ask for theirs. Patterns of named arguments are hidden.
    pub written: Value,
    /// The minions, or the part of the master, to which the rule applies.
    pub scope: RuleScope,
    /// The functions that it allows. Without meaning for keys, events and everything.
    pub functions: Vec<FunctionRule>,
}

/// The minions, or the part of the master, to which a rule applies.
#[derive(Debug, Clone)]
pub enum RuleScope {
    /// Jobs for all minions.
    AllMinions,
    /// Jobs for the minions whose ids the pattern matches.
    Minions(TextPattern),
    /// Functions on the master: `@runner`, `@jobs`.
    Runners,
    /// The keys of minions: `@wheel`.
    Keys,
    /// All events, also of what others ordered: `@events`.
    Events,
    /// Everything that an operator can do: `@all`.
    Everything,
}

/// A function that a rule allows, perhaps with some arguments alone.
#[derive(Debug, Clone)]
pub struct FunctionRule {
    /// The names of functions.
    pub name: TextPattern,
    /// Patterns for the first positional arguments, which have to be there.
    pub args: Vec<TextPattern>,
    /// Patterns for named arguments, which have to be there.
    pub kwargs: BTreeMap<String, TextPattern>,
}

/// Users and functions that `publisher_acl_blacklist` refuses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccessBlacklist {
    /// The names of users.
    pub users: Vec<TextPattern>,
    /// The functions.
    pub modules: Vec<TextPattern>,
}

impl AccessRules {
    /// Whether nobody is named.
    pub fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    /// Returns the rules for somebody of this name in these groups: those of the name and of the groups, or else those
    /// for everybody. When it `is_permissive`, those for everybody are beside them.
    pub fn of<'a>(
        &'a self,
        name: &'a str,
        groups: &'a [String],
        is_permissive: bool,
    ) -> impl Iterator<Item = &'a AccessRule> {
        let is_named = move |subject: &Subject| match subject {
            Subject::Name(own) => own == name,
            Subject::Group(group) => groups.contains(group),
            Subject::Everybody => false,
        };
        let named = self.subjects.iter().any(|(subject, _)| is_named(subject));
        let own = self
            .subjects
            .iter()
            .filter(move |(subject, _)| match named {
                true => is_named(subject) || (is_permissive && *subject == Subject::Everybody),
                false => *subject == Subject::Everybody,
            });
        own.flat_map(|(_, rules)| rules)
    }
}

impl AccessRule {
    /// Whether the rule lets one run every function, with all arguments, on all minions.
    pub fn has_all_functions(&self) -> bool {
        let is_all = |function: &FunctionRule| {
            matches!(function.name.as_str(), "*" | ".*")
                && function.args.is_empty()
                && function.kwargs.is_empty()
        };
        matches!(self.scope, RuleScope::AllMinions) && self.functions.iter().any(is_all)
    }
}

impl PartialEq for AccessRule {
    /// Rules are equal when they are written in the same way.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
