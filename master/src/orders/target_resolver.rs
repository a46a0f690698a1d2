//! Finds the minions that a target includes: the accepted ones, by their ids and by the grains that the master
//! knows.

use std::sync::Arc;

use saline_messages::MinionId;
use saline_protocol::transport::Context;
use saline_targeting::{CompiledTarget, Expanded, PackedGrains, Target, TargetError, TooManySteps};

use super::trusted::{Chosen, Claimed, Trusted, judge};
use crate::authorize::{Authorizer, Principal};
use crate::grains::GrainsTable;
use crate::keys::{KeyAccess, KeyOnDisk, KeyStore};
use crate::settings::{LiveSettings, RootFacts};

/// Finds the minions that targets include.
#[derive(Debug, Clone)]
pub struct TargetResolver {
    pub(crate) keys: KeyAccess,
    pub(crate) grains: Arc<GrainsTable>,
    pub(crate) settings: LiveSettings,
    pub(crate) context: Context,
}

/// A target and the minions that it includes.
#[derive(Debug)]
pub struct ResolvedTarget {
    /// The target without what only a master knows, as minions get it.
    pub target: CompiledTarget,
    /// The minions, sorted by id, and on what the decision rests.
    pub minions: Chosen,
    /// The minions, sorted by id, about which the target cannot decide, since they have reported no grains. They are
    /// among the `minions` only where they were asked for.
    pub without_grains: Vec<MinionId>,
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
    /// Returns what root says of one minion; none if its key is not accepted now.
    ///
    /// # Errors
    /// When its key cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub(crate) async fn trusted(&self, id: &MinionId) -> Result<Option<Trusted>, ResolveError> {
        let key = self.keys.keys_on_disk(vec![id.clone()]).await.pop();
        match key {
            Some((_, KeyOnDisk::Accepted(_))) => {}
            Some((_, KeyOnDisk::NotAccepted)) => return Ok(None),
            Some((_, KeyOnDisk::Unreadable)) | None => {
                let why = format!("the key of minion {id} cannot be read");
                return Err(ResolveError::Keys(why));
            }
        }
        let root = self.settings.now().root_facts;
        let reported = self.grains.of(std::slice::from_ref(id)).pop().flatten();
        Ok(Some(Trusted::of(id, reported, &root)))
    }

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
        let settings = self.settings.now();
        let root = settings.root_facts;
        let Expanded {
            target,
            has_assigned,
        } = target.expand(&settings.nodegroups, &root.assignments)?;
        let compiled = target.compile()?;
        let accepted = match self.keys.with_minions(KeyStore::accepted_ids).await {
            Some(Ok(ids)) => ids,
            Some(Err(error)) => return Err(ResolveError::Keys(error.to_string())),
            None => return Err(ResolveError::Keys("the key store failed".to_owned())),
        };
        let needs_grains = compiled.needs_grains();
        if !needs_grains && !has_assigned {
            return resolve_among(compiled, &accepted, &[], &root, include_unknown)
                .inspect(warn_of_given_up);
        }
        let grains = Arc::clone(&self.grains);
        // Thousands of grains are looked at, and a regular expression may take its time with each.
        let resolving = self.context.spawn_blocking(move || {
            if has_assigned {
                check_assigned(&accepted, &root)?;
            }
            let known = match needs_grains {
                true => grains.of(&accepted),
                false => Vec::new(),
            };
            let mut resolved = resolve_among(compiled, &accepted, &known, &root, include_unknown)?;
            if has_assigned {
                // Nobody typed the ids: something may be assigned to one before its key is accepted.
                resolved.unknown.clear();
            }
            Ok(resolved)
        });
        match resolving.await {
            Ok(resolved) => resolved.inspect(warn_of_given_up),
            Err(_) => Err(ResolveError::Keys("the target was not resolved".to_owned())),
        }
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

/// Names the minions at which a target was given up.
fn warn_of_given_up(resolved: &ResolvedTarget) {
    const SHOWN: usize = 20;
    let given_up = &resolved.given_up;
    if given_up.is_empty() {
        return;
    }
    let names: Vec<&str> = given_up.iter().take(SHOWN).map(MinionId::as_str).collect();
    tracing::warn!(
        "the target {:?} was given up at {} minions, which do not get the job: {TooManySteps}; the first are {}",
        resolved.target.target().expression,
        given_up.len(),
        names.join(", ")
    );
}

/// Finds the minions that a target includes among these accepted ones, sorted by id, whose grains are `known` in the same
/// order. It does not include one with which a regular expression takes too many steps, whatever the rest of the target
/// says: that hangs on the grains, and no minion decides by them about the others.
///
/// # Errors
/// When a regular expression takes too many steps with some minions, and the target includes no other.
pub fn resolve_among(
    target: CompiledTarget,
    accepted: &[MinionId],
    known: &[Option<Arc<PackedGrains>>],
    root: &Arc<RootFacts>,
    include_unknown: bool,
) -> Result<ResolvedTarget, ResolveError> {
    let known = known.iter().cloned().chain(std::iter::repeat(None));
    let known = accepted.iter().zip(known);
    let (minions, without_grains, given_up) = match target.looks_only_at(&root.trusted_grains) {
        true => {
            let trusted = known.map(|(id, grains)| Trusted::of(id, grains, root));
            let verdict = judge(&target, trusted);
            let chosen = Chosen::ByTrusted(verdict.included);
            (chosen, verdict.without_grains, verdict.given_up)
        }
        false => {
            let claimed = known.map(|(id, grains)| Claimed::of(id, grains));
            let verdict = judge(&target, claimed);
            let chosen = Chosen::ByClaimed(verdict.included);
            (chosen, verdict.without_grains, verdict.given_up)
        }
    };
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
    Ok(ResolvedTarget {
        unknown,
        target,
        minions,
        without_grains,
        given_up,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use saline_data::{Packed, Value};
    use saline_targeting::TargetKind;

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
        let known = [Some(Arc::new(grains)), None];
        let target = target.compile().unwrap();
        let resolved = resolve_among(target, &ids, &known, &root, include_unknown).unwrap();
        let is_trusted = matches!(resolved.minions, Chosen::ByTrusted(_));
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
