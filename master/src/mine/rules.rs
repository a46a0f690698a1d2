//! Who may get what: `mine_get` in the master's configuration, and `allow_tgt` of each entry. Both are decided by what root says of
//! the minion that asks, and never by what it says of itself.

use std::collections::HashMap;
use std::sync::Arc;

use saline_config::MineRule;
use saline_messages::MinionId;
use saline_targeting::{
    Candidate, CompiledTarget, Inclusion, Nodegroups, PillarMatches, Target, TargetKind,
};

use super::store;
use crate::facts::Trusted;
use crate::settings::RootFacts;

/// The most compiled targets that one answer keeps.
const MAX_DECIDED: usize = 1_000;

/// Returns the numbers of the functions that a minion may get by `mine_get`; all without such rules.
pub(super) fn permitted(
    rules: Option<&[MineRule]>,
    id: &MinionId,
    functions: &[String],
) -> Vec<u32> {
    let numbered = (0..).zip(functions);
    let Some(rules) = rules else {
        return numbered.map(|(number, _)| number).collect();
    };
    let mut own = rules
        .iter()
        // A pattern that takes too many steps permits nothing.
        .filter(|rule| rule.minions.matches(id.as_str()).unwrap_or(false));
    let patterns: Vec<_> = own.by_ref().flat_map(|rule| &rule.functions).collect();
    let is_permitted = |name: &str| {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| pattern.matches(name).unwrap_or(false))
    };
    let permitted = numbered.filter(|(_, name)| is_permitted(name));
    permitted.map(|(number, _)| number).collect()
}

/// Compiles the `allow_tgt` of an entry.
///
/// # Errors
/// When it is malformed, names what is unknown, or looks at what a minion says of itself; in one line.
pub(super) fn compile_allowed(
    target: Target,
    nodegroups: &Nodegroups,
    root: &RootFacts,
) -> Result<CompiledTarget, String> {
    let target = with_exact_pillar(target, nodegroups, root)?;
    let expanded = target.expand(nodegroups, &root.assignments);
    let compiled = expanded.and_then(|expanded| expanded.target.compile());
    let compiled = compiled.map_err(|error| error.to_string().replace('\n', " "))?;
    match compiled.looks_only_at_pillar_and(&root.trusted_grains) {
        true => Ok(compiled),
        false => Err(
            "it looks at grains or addresses, and a minion says of itself what these are: name the grains in trusted_grains of \
             the master, or use ids, and roles and attributes of minions.d (A@roles:web)"
                .to_owned(),
        ),
    }
}

/// Returns a target of a minion, which compares pillars with whole values alone: what a minion asks for must not let it find out, letter
/// by letter, what stands in the pillars of others, and a rule of one is about what its author knows.
///
/// # Errors
/// When it looks at pillars in another way; in one line.
pub(super) fn with_exact_pillar(
    target: Target,
    nodegroups: &Nodegroups,
    root: &RootFacts,
) -> Result<Target, String> {
    let exact = match target.kind {
        TargetKind::Pillar | TargetKind::PillarExact => {
            return Ok(Target {
                kind: TargetKind::PillarExact,
                ..target
            });
        }
        _ => target,
    };
    // A malformed target passes here: TargetResolver reports it.
    let expanded = exact.clone().expand(nodegroups, &root.assignments);
    let compiled = expanded.and_then(|expanded| expanded.target.compile());
    match compiled.is_ok_and(|target| target.needs_pillar()) {
        false => Ok(exact),
        true => Err(
            "it has a pattern over pillars: in the mine a target of the kind pillar_exact compares with a whole value, and is no part of a compound one"
                .to_owned(),
        ),
    }
}

/// Decides for one minion that asks whether it may get entries.
pub(super) struct Asker {
    facts: Trusted,
    nodegroups: Arc<Nodegroups>,
    root: Arc<RootFacts>,
    /// What was decided about each encoded target.
    decided: HashMap<Vec<u8>, bool>,
    /// Encoded targets over pillars that were met, and that are decided when the pillar of the minion is known.
    undecided: HashMap<Vec<u8>, CompiledTarget>,
}

impl Asker {
    pub(super) fn new(facts: Trusted, nodegroups: Arc<Nodegroups>, root: Arc<RootFacts>) -> Self {
        Self {
            facts,
            nodegroups,
            root,
            decided: HashMap::new(),
            undecided: HashMap::new(),
        }
    }

    /// Returns a target over pillars that the entries so far have, and that is not decided.
    pub(super) fn take_undecided(&mut self) -> Option<(Vec<u8>, CompiledTarget)> {
        let encoded = self.undecided.keys().next()?.clone();
        self.undecided.remove_entry(&encoded)
    }

    /// Decides about a target over pillars, of which these terms match the pillar of the minion. Without a pillar it does not
    /// include the minion.
    pub(super) fn decide(
        &mut self,
        encoded: Vec<u8>,
        target: &CompiledTarget,
        pillar: Option<PillarMatches>,
    ) {
        let included = self.includes(target, pillar);
        self.decided.insert(encoded, included);
    }

    /// Whether a target includes the minion. What cannot be decided does not.
    fn includes(&self, target: &CompiledTarget, pillar: Option<PillarMatches>) -> bool {
        let candidate = Candidate {
            id: self.facts.id().as_str(),
            grains: self.facts.grains(),
            pillar,
        };
        matches!(target.decide(candidate), Ok(Inclusion::Included))
    }

    /// Whether the minion may get an entry. It may get its own.
    pub(super) fn may_get(&mut self, row: &store::Row<'_>) -> bool {
        let Some(allowed) = row.allowed else {
            return true;
        };
        if row.minion == self.facts.id().as_str() {
            return true;
        }
        if let Some(decided) = self.decided.get(allowed) {
            return *decided;
        }
        let target = store::target(allowed);
        let compiled = compile_allowed(target, &self.nodegroups, &self.root);
        let decided = match compiled {
            Ok(target) if target.needs_pillar() => {
                if self.undecided.len() + self.decided.len() < MAX_DECIDED {
                    self.undecided.insert(allowed.to_owned(), target);
                }
                return false;
            }
            Ok(target) => self.includes(&target, None),
            Err(_) => false,
        };
        if self.decided.len() < MAX_DECIDED {
            self.decided.insert(allowed.to_owned(), decided);
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use saline_targeting::{TargetKind, TextPattern};

    use super::*;

    fn rule(minions: &str, functions: &[&str]) -> MineRule {
        let pattern = |text: &&str| TextPattern::glob_else_regex(text).unwrap();
        MineRule {
            minions: pattern(&minions),
            functions: functions.iter().map(pattern).collect(),
        }
    }

    #[test]
    fn the_rules_of_all_patterns_that_match_count() {
        let rules = [
            rule("web*", &["network.*"]),
            rule("web1", &["ips"]),
            rule("db[0-9]+", &[".*"]),
        ];
        let functions = ["network.ip_addrs", "ips", "networks.x"].map(str::to_owned);
        let permitted = |id: &str| {
            let id = MinionId::parse(id).unwrap();
            permitted(Some(&rules), &id, &functions)
        };
        assert_eq!(permitted("web1"), [0, 1]);
        assert_eq!(permitted("web2"), [0]);
        assert_eq!(permitted("db12"), [0, 1, 2]);
        assert_eq!(permitted("db12x"), [0; 0], "the whole id counts");
        assert_eq!(permitted("app1"), [0; 0]);
        let id = MinionId::parse("app1").unwrap();
        assert_eq!(super::permitted(None, &id, &functions), [0, 1, 2]);
    }

    #[test]
    fn a_rule_looks_at_nothing_that_a_minion_says_of_itself() {
        let root = RootFacts {
            trusted_grains: BTreeSet::from(["os".to_owned()]),
            ..RootFacts::default()
        };
        let compile = |kind, expression: &str| {
            let expression = expression.to_owned();
            compile_allowed(Target { kind, expression }, &Nodegroups::default(), &root)
        };
        for (kind, expression) in [
            (TargetKind::Glob, "web*"),
            (TargetKind::Compound, "web* and G@os:Debian"),
            (TargetKind::List, "a,b"),
            (TargetKind::PillarExact, "a:b"),
            (TargetKind::Pillar, "a:b"),
        ] {
            assert!(compile(kind, expression).is_ok(), "{expression}");
        }
        for (kind, expression, why) in [
            (TargetKind::Grain, "role:web", "trusted_grains"),
            (TargetKind::IpCidr, "10.0.0.0/8", "trusted_grains"),
            (TargetKind::PillarPcre, "a:b.*", "pillar_exact"),
            (TargetKind::Compound, "web* or I@a:b", "pillar_exact"),
            (TargetKind::Nodegroup, "absent", "absent"),
            (TargetKind::Compound, "web* and", "expected a term"),
        ] {
            let error = compile(kind, expression).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_minion_that_asks_compares_pillars_with_whole_values_alone() {
        let exact = |kind, expression: &str| {
            let expression = expression.to_owned();
            let root = RootFacts::default();
            with_exact_pillar(Target { kind, expression }, &Nodegroups::default(), &root)
        };
        for kind in [TargetKind::Pillar, TargetKind::PillarExact] {
            let target = exact(kind, "password:h*").unwrap();
            assert_eq!(target.kind, TargetKind::PillarExact);
        }
        for (kind, expression) in [
            (TargetKind::PillarPcre, "password:h.*"),
            (TargetKind::Compound, "* and I@password:h*"),
        ] {
            let error = exact(kind, expression).unwrap_err();
            assert!(error.contains("pillar_exact"), "{error}");
        }
        // What is malformed is told elsewhere.
        for (kind, expression) in [(TargetKind::Compound, "* and"), (TargetKind::Glob, "*")] {
            assert!(exact(kind, expression).is_ok());
        }
    }
}
