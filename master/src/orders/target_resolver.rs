//! Finds the minions that a target includes: the accepted ones, by their ids and by the grains that the master
//! knows.

use std::sync::Arc;

use saline_messages::MinionId;
use saline_protocol::transport::Context;
use saline_targeting::{
    Candidate, CompiledTarget, Grains, Inclusion, PackedGrains, Target, TooManySteps,
};

use crate::grains::GrainsTable;
use crate::keys::{KeyAccess, KeyStore};
use crate::settings::LiveSettings;

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
    /// The target without names of nodegroups, as minions get it.
    pub target: CompiledTarget,
    /// The minions, sorted by id, also those that may turn out not to match.
    pub minions: Vec<MinionId>,
    /// The minions of which no grains are known, though the target looks at them.
    pub unsure: Vec<MinionId>,
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
    /// The accepted minions cannot be read.
    #[error("{0}")]
    Keys(String),
}

impl TargetResolver {
    /// Finds the minions that a target includes. Salt expects the minions of which it knows no grains too; here
    /// they are named as [unsure](ResolvedTarget::unsure).
    ///
    /// # Errors
    /// See [`ResolveError`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn resolve(&self, target: Target) -> Result<ResolvedTarget, ResolveError> {
        let compiled = target
            .expand(&self.settings.now().nodegroups)
            .and_then(Target::compile)
            .map_err(|error| ResolveError::Target(error.to_string()))?;
        let accepted = match self.keys.with_minions(KeyStore::accepted_ids).await {
            Some(Ok(ids)) => ids,
            Some(Err(error)) => return Err(ResolveError::Keys(error.to_string())),
            None => return Err(ResolveError::Keys("the key store failed".to_owned())),
        };
        if !compiled.needs_grains() {
            return resolve_among(compiled, &accepted, &[]).inspect(warn_of_given_up);
        }
        let grains = Arc::clone(&self.grains);
        // Thousands of grains are looked at, and a regular expression may take its time with each.
        let resolving = self.context.spawn_blocking(move || {
            let known = grains.of(&accepted);
            resolve_among(compiled, &accepted, &known)
        });
        match resolving.await {
            Ok(resolved) => resolved.inspect(warn_of_given_up),
            Err(_) => Err(ResolveError::Keys("the target was not resolved".to_owned())),
        }
    }
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

/// Finds the minions that a target includes among these, whose grains are `known` in the same order. It does not
/// include one with which a regular expression takes too many steps, whatever the rest of the target says: that
/// hangs on the grains, and no minion decides by them about the others.
///
/// # Errors
/// When a regular expression takes too many steps with some minions, and the target includes no other.
pub fn resolve_among(
    target: CompiledTarget,
    ids: &[MinionId],
    known: &[Option<Arc<PackedGrains>>],
) -> Result<ResolvedTarget, ResolveError> {
    let (mut minions, mut unsure, mut given_up) = (Vec::new(), Vec::new(), Vec::new());
    for (number, id) in ids.iter().enumerate() {
        let grains = known.get(number).and_then(Option::as_deref);
        let grains = grains.map(|grains| grains as &dyn Grains);
        match target.decide(Candidate {
            id: id.as_str(),
            grains,
        }) {
            Ok(Inclusion::Included) => minions.push(id.clone()),
            Ok(Inclusion::Unknown) => {
                minions.push(id.clone());
                unsure.push(id.clone());
            }
            Ok(Inclusion::Excluded) => {}
            Err(TooManySteps) => given_up.push(id.clone()),
        }
    }
    if minions.is_empty()
        && let Some(id) = given_up.first()
    {
        return Err(ResolveError::Target(format!(
            "the target was given up at minion {id}: {TooManySteps}"
        )));
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
        unsure,
        given_up,
    })
}
