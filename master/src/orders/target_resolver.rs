//! Finds the minions that a target includes: the accepted ones, by their ids, by the grains that the master knows, and by the
//! pillars that it compiled.

use std::sync::Arc;

use saline_data::printable::number_of;
use saline_messages::MinionId;
use saline_protocol::transport::Context;
use saline_targeting::{
    Candidate, CompiledTarget, Expanded, Inclusion, PillarMatches, Target, TargetError,
    TooManySteps,
};

use crate::authorize::{Authorizer, Principal};
use crate::facts::{FactsError, FactsReader, IncludedMinions, KnownMinion, TargetVerdict};
use crate::pillar::Pillars;
use crate::settings::RootFacts;

/// Finds the minions that targets include.
#[derive(Debug, Clone)]
pub struct TargetResolver {
    pub(crate) facts: FactsReader,
    pub(crate) pillars: Pillars,
    pub(crate) context: Context,
}

/// A target and the minions that it includes.
#[derive(Debug)]
pub struct ResolvedTarget {
    /// The target without what only a master knows, as minions get it.
    pub target: CompiledTarget,
    /// The minions, sorted by id, and on what the decision rests.
    pub minions: IncludedMinions,
    /// The minions, sorted by id, about which the target cannot decide, since they have reported no grains. They are
    /// among the `minions` only where they were asked for.
    pub without_grains: Vec<MinionId>,
    /// The minions, sorted by id, about which the target cannot decide, since the master has no pillar of theirs. They are never
    /// among the `minions`.
    pub without_pillar: Vec<MinionId>,
    /// The names in a list for which there is no key.
    pub unknown: Vec<String>,
    /// The ids that are not among the minions because a regular expression took too many steps with what they say of
    /// themselves, or with their ids.
    pub given_up: Vec<MinionId>,
}

/// The reason why a target was not resolved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The target is malformed, or names what is unknown; in one line.
    #[error("{0}")]
    Target(String),
    /// A regular expression took too many steps with this minion, and the target includes no other.
    #[error("{}", given_up(Some(.0)))]
    GivenUp(MinionId),
    /// The accepted minions cannot be read.
    #[error("{0}")]
    Keys(String),
}

impl ResolveError {
    /// Returns the error as it is told to this principal, who may not know of every minion.
    pub(crate) fn told_to(self, principal: &Principal, authorizer: &Authorizer) -> Self {
        match self {
            Self::GivenUp(id) => {
                let known = authorizer.known_to(principal, vec![id]);
                Self::Target(given_up(known.first()))
            }
            error => error,
        }
    }
}

/// Returns that a target was given up, in one line, and at which minion.
fn given_up(minion: Option<&MinionId>) -> String {
    match minion {
        Some(id) => format!("the target was given up at minion {id}: {TooManySteps}"),
        None => format!("the target was given up: {TooManySteps}"),
    }
}

impl TargetResolver {
    /// Finds the minions that a target includes. With `include_unknown` also those about which it cannot decide, since
    /// they have reported no grains; Salt always expects these.
    ///
    /// # Errors
    /// See [`ResolveError`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn resolve(
        &self,
        target: Target,
        include_unknown: bool,
    ) -> Result<ResolvedTarget, ResolveError> {
        let settings = self.facts.settings.now();
        let root = settings.root_facts;
        let Expanded {
            target,
            has_assigned,
        } = target.expand(&settings.nodegroups, &root.assignments)?;
        let target = Arc::new(target.compile()?);
        let accepted = self.facts.accepted().await?;
        if !target.needs_grains() && !target.needs_pillar() && !has_assigned {
            return resolve_among(&target, &accepted, Vec::new(), &root, include_unknown)
                .inspect(warn);
        }
        let known = self.known(&target, &accepted).await?;
        let resolving = self.context.spawn_blocking(move || {
            if has_assigned {
                check_assigned(&accepted, &root)?;
            }
            let mut resolved = resolve_among(&target, &accepted, known, &root, include_unknown)?;
            if has_assigned {
                // Nobody typed the ids: something may be assigned to one before its key is accepted.
                resolved.unknown.clear();
            }
            Ok(resolved)
        });
        match resolving.await {
            Ok(resolved) => resolved.inspect(warn),
            Err(_) => Err(not_resolved()),
        }
    }

    /// Returns what is known of these accepted minions, in their order, as far as the target looks at it. Thousands of grains
    /// are looked at, and a regular expression may take its time with each. Pillars are looked at where nothing else decides.
    async fn known(
        &self,
        target: &Arc<CompiledTarget>,
        accepted: &Arc<Vec<MinionId>>,
    ) -> Result<Vec<KnownMinion>, ResolveError> {
        let (judged, among) = (Arc::clone(target), Arc::clone(accepted));
        let grains = Arc::clone(&self.facts.grains);
        let looking = self.context.spawn_blocking(move || {
            let reported = match judged.needs_grains() {
                true => grains.of(&among),
                false => vec![None; among.len()],
            };
            let of_one = |grains| KnownMinion {
                grains,
                pillar: None,
            };
            let known: Vec<KnownMinion> = reported.into_iter().map(of_one).collect();
            let undecided: Vec<usize> = match judged.needs_pillar() {
                true => undecided(&judged, &among, &known),
                false => Vec::new(),
            };
            (known, undecided)
        });
        let (mut known, undecided) = looking.await.map_err(|_| not_resolved())?;
        if undecided.is_empty() {
            return Ok(known);
        }
        let ids: Vec<MinionId> = undecided.iter().map(|at| accepted[*at].clone()).collect();
        let pillars = self.pillars.match_target(ids, target).await;
        for (at, pillar) in undecided.into_iter().zip(pillars) {
            known[at].pillar = pillar;
        }
        Ok(known)
    }
}

/// Returns the places of those about which a target does not decide without their pillars.
fn undecided(target: &CompiledTarget, accepted: &[MinionId], known: &[KnownMinion]) -> Vec<usize> {
    let decides = |id: &MinionId, known: &KnownMinion| {
        let grains = known.grains.as_deref();
        let decided = target.decide(Candidate {
            id: id.as_str(),
            grains: grains.map(|grains| grains as &dyn saline_targeting::Grains),
            pillar: None,
        });
        decided != Ok(Inclusion::Unknown)
    };
    let all = accepted.iter().zip(known).enumerate();
    all.filter(|(_, (id, known))| !decides(id, known))
        .map(|(at, _)| at)
        .collect()
}

fn not_resolved() -> ResolveError {
    // The code panicked, which the runtime logs.
    ResolveError::Keys("the target was not resolved".to_owned())
}

impl From<FactsError> for ResolveError {
    fn from(FactsError(why): FactsError) -> Self {
        Self::Keys(why)
    }
}

impl From<TargetError> for ResolveError {
    fn from(error: TargetError) -> Self {
        Self::Target(error.to_string())
    }
}

/// Checks that no minion is assigned two values of one attribute: nobody knows then which one is meant.
fn check_assigned(accepted: &[MinionId], root: &RootFacts) -> Result<(), ResolveError> {
    for id in accepted {
        let assigned = root.assignments.of(id.as_str());
        assigned.map_err(|error| ResolveError::Target(error.to_string()))?;
    }
    Ok(())
}

/// The most minions that a warning names.
const SHOWN: usize = 20;

/// Warns of the minions at which a target was given up, and of those without a pillar. What is searched for in pillars is not
/// in the log.
fn warn(resolved: &ResolvedTarget) {
    let first = |ids: &[MinionId]| {
        let names: Vec<&str> = ids.iter().take(SHOWN).map(MinionId::as_str).collect();
        names.join(", ")
    };
    let ResolvedTarget {
        given_up,
        without_pillar,
        ..
    } = resolved;
    if !given_up.is_empty() {
        tracing::warn!(
            "the target {:?} was given up at {}, which do not get the job: {TooManySteps}; the first are {}",
            resolved.target.target().masked(),
            number_of(given_up.len(), "minion"),
            first(given_up)
        );
    }
    if !without_pillar.is_empty() {
        tracing::warn!(
            "a target by pillar does not include {} whose pillars have errors or were not compiled in time; the \
             first are {}",
            number_of(without_pillar.len(), "minion"),
            first(without_pillar)
        );
    }
}

/// Finds the minions that a target includes among these accepted ones, sorted by id, of which this is `known` in the same
/// order. It does not include one with which a regular expression takes too many steps, whatever the rest of the target
/// says: that hangs on the grains or the pillar of this minion, and no minion decides by them about the others.
///
/// # Errors
/// When a regular expression takes too many steps with some minions, and the target includes no other.
pub fn resolve_among(
    target: &CompiledTarget,
    accepted: &[MinionId],
    known: Vec<KnownMinion>,
    root: &Arc<RootFacts>,
    include_unknown: bool,
) -> Result<ResolvedTarget, ResolveError> {
    let pillars: Vec<Option<PillarMatches>> = match target.needs_pillar() {
        true => known.iter().map(|known| known.pillar?.ok()).collect(),
        false => Vec::new(),
    };
    let TargetVerdict {
        included: minions,
        without_pillar,
        without_grains,
        given_up,
    } = TargetVerdict::of(target, accepted, known, root);
    let minions = match include_unknown && !without_grains.is_empty() {
        true => minions.with(&without_grains),
        false => minions,
    };
    if minions.is_empty()
        && let Some(id) = given_up.first()
    {
        return Err(ResolveError::GivenUp(id.clone()));
    }
    // A list has all that is in it, so what is not among the minions has no key.
    let has_no_key = |name: &&String| {
        let found = minions.binary_search_by(|id| id.as_str().cmp(name.as_str()));
        found.is_err()
    };
    let unknown = target.listed().iter().filter(has_no_key).cloned().collect();
    let published = match target.needs_pillar() {
        true => {
            let all = accepted.iter().zip(pillars);
            let included = all.filter(|(id, _)| minions.binary_search(id).is_ok());
            let included: Vec<_> = included.map(|(id, it)| (id.as_str(), it)).collect();
            target
                .target()
                .clone()
                .replace_pillar_terms(&included)?
                .compile()?
        }
        false => target.clone(),
    };
    Ok(ResolvedTarget {
        unknown,
        target: published,
        minions,
        without_grains,
        without_pillar,
        given_up,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use saline_data::{Packed, Value};
    use saline_targeting::{PackedGrains, TargetKind};

    use super::*;

    /// Resolves a compound expression among `a`, whose grains are known, and `b`, whose are not. Returns whether trusted
    /// facts alone decided, and the minions.
    fn resolve(expression: &str, include_unknown: bool) -> (bool, String) {
        let grains = ["os", "role"].map(|name| (name, Value::from("x")));
        let grains = PackedGrains::read(&Packed::pack(&Value::map(grains))).unwrap();
        let root = Arc::new(RootFacts {
            trusted_grains: BTreeSet::from(["os".to_owned()]),
            ..RootFacts::default()
        });
        let target = Target {
            kind: TargetKind::Compound,
            expression: expression.to_owned(),
        };
        let ids = ["a", "b"].map(|id| MinionId::parse(id).unwrap());
        let target = target.compile().unwrap();
        let known = KnownMinion {
            grains: Some(Arc::new(grains)),
            pillar: None,
        };
        let resolved = resolve_among(&target, &ids, vec![known], &root, include_unknown).unwrap();
        let is_trusted = matches!(resolved.minions, IncludedMinions::ByTrusted(_));
        let ids = resolved.minions.into_ids();
        let ids: Vec<&str> = ids.iter().map(MinionId::as_str).collect();
        (is_trusted, ids.join(" "))
    }

    #[test]
    fn what_minions_claim_is_never_trusted() {
        for (expression, is_trusted, minions) in [
            ("*", true, "a b"),
            ("L@b or E@c", true, "b"),
            ("G@os:x", true, "a"),
            ("* and not G@os:y", true, "a"),
            ("G@role:x", false, "a"),
            ("b or G@role:x", false, "a b"),
            ("G@os:x and not G@role:y", false, "a"),
            ("G@*:x", false, "a"),
            ("not S@10.0.0.0/8", false, "a"),
        ] {
            let expected = (is_trusted, minions.to_owned());
            assert_eq!(resolve(expression, false), expected, "{expression}");
        }
        // A minion about which nothing decided is there because it was asked for.
        assert_eq!(resolve("G@os:x", true), (false, "a b".to_owned()));
        assert_eq!(resolve("*", true), (true, "a b".to_owned()));
    }
}
