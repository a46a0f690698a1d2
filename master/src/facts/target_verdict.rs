//! The minions that a target includes, and on what that rests: on what root says of them, or on what they say of themselves.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use saline_messages::MinionId;
use saline_targeting::{
    Candidate, CompiledTarget, Inclusion, PackedGrains, PillarMatches, TooManySteps,
};

use super::trusted::{Claimed, Facts, Trusted};
use crate::settings::RootFacts;

/// Which terms of a target the pillar of a minion matches, or that a regular expression took too many steps with it; none where the
/// pillar is not known.
pub type PillarVerdict = Option<Result<PillarMatches, TooManySteps>>;

/// What the master knows of one minion by which a target decides.
#[derive(Debug, Clone, Default)]
pub struct KnownMinion {
    /// The grains that it reported; none before it did.
    pub grains: Option<Arc<PackedGrains>>,
    /// What its pillar says of the target.
    pub pillar: PillarVerdict,
}

/// What a target says of accepted minions. Each list is sorted by id.
#[derive(Debug)]
pub(crate) struct TargetVerdict {
    pub(crate) included: IncludedMinions,
    /// Those about which it cannot decide without their pillars.
    pub(crate) without_pillar: Vec<MinionId>,
    /// Those about which it cannot decide without their grains.
    pub(crate) without_grains: Vec<MinionId>,
    /// Those with which a regular expression takes too many steps.
    pub(crate) given_up: Vec<MinionId>,
}

impl TargetVerdict {
    /// Judges these accepted minions, sorted by id, of which this is known in the same order. A pillar follows from trusted
    /// facts, so a target over pillars rests on these.
    pub(crate) fn of(
        target: &CompiledTarget,
        accepted: &[MinionId],
        known: Vec<KnownMinion>,
        root: &Arc<RootFacts>,
    ) -> Self {
        let known = known
            .into_iter()
            .chain(std::iter::repeat_with(KnownMinion::default));
        let known = accepted.iter().zip(known);
        match target.looks_only_at_pillar_and(&root.trusted_grains) {
            true => judge(
                target,
                known.map(|(id, known)| (Trusted::of(id, known.grains, root), known.pillar)),
                IncludedMinions::ByTrusted,
            ),
            false => judge(
                target,
                known.map(|(id, known)| (Claimed::of(id, known.grains), known.pillar)),
                IncludedMinions::ByClaimed,
            ),
        }
    }
}

/// Judges each of these minions, which come in the order of their ids.
fn judge<F: Facts>(
    target: &CompiledTarget,
    minions: impl Iterator<Item = (F, PillarVerdict)>,
    by: impl FnOnce(IncludedBy<F>) -> IncludedMinions,
) -> TargetVerdict {
    let mut included = Vec::new();
    let (mut without_pillar, mut without_grains) = (Vec::new(), Vec::new());
    let mut given_up = Vec::new();
    for (facts, pillar) in minions {
        let decided = pillar.transpose().and_then(|pillar| {
            target.decide(Candidate {
                pillar,
                ..facts.candidate()
            })
        });
        let list = match decided {
            Ok(Inclusion::Included) => &mut included,
            Ok(Inclusion::Unknown) if target.needs_pillar() && pillar.is_none() => {
                &mut without_pillar
            }
            Ok(Inclusion::Unknown) => &mut without_grains,
            Ok(Inclusion::Excluded) => continue,
            Err(TooManySteps) => &mut given_up,
        };
        list.push(facts.into_id());
    }
    TargetVerdict {
        included: by(IncludedBy {
            minions: included,
            by: PhantomData,
        }),
        without_pillar,
        without_grains,
        given_up,
    }
}

/// Minions, sorted by id, that a target includes by facts of the kind `F`: [`Trusted`] or [`Claimed`].
///
/// A function that decides about secrets takes those by trusted facts:
///
/// ```
/// use saline_master::facts::{IncludedBy, Trusted};
///
/// fn give_secret(minions: &IncludedBy<Trusted>) {}
/// fn order(minions: IncludedBy<Trusted>) {
///     give_secret(&minions);
/// }
/// ```
///
/// It cannot be called with what minions claim:
///
/// ```compile_fail,E0308
/// use saline_master::facts::{Claimed, IncludedBy, Trusted};
///
/// fn give_secret(minions: &IncludedBy<Trusted>) {}
/// fn order(minions: IncludedBy<Claimed>) {
///     give_secret(&minions);
/// }
/// ```
#[derive(Debug)]
pub struct IncludedBy<F> {
    minions: Vec<MinionId>,
    by: PhantomData<F>,
}

impl<F> IncludedBy<F> {
    /// Returns the minions.
    pub fn minions(&self) -> &[MinionId] {
        &self.minions
    }
}

/// The minions that a target includes, by id, with the facts on which that rests.
#[derive(Debug)]
pub enum IncludedMinions {
    /// Trusted facts alone decided.
    ByTrusted(IncludedBy<Trusted>),
    /// Claims of minions may have decided, or minions without reported grains were included on request.
    ByClaimed(IncludedBy<Claimed>),
}

impl IncludedMinions {
    /// Returns the minions, for what is no secret.
    pub fn into_ids(self) -> Vec<MinionId> {
        match self {
            Self::ByTrusted(included) => included.minions,
            Self::ByClaimed(included) => included.minions,
        }
    }

    /// Adds minions that were included without a decision. The result rests on claims.
    pub(crate) fn with(self, more: &[MinionId]) -> Self {
        let mut minions = self.into_ids();
        minions.extend_from_slice(more);
        minions.sort_unstable();
        let by = PhantomData;
        Self::ByClaimed(IncludedBy { minions, by })
    }
}

impl Deref for IncludedMinions {
    type Target = [MinionId];

    fn deref(&self) -> &[MinionId] {
        match self {
            Self::ByTrusted(included) => &included.minions,
            Self::ByClaimed(included) => &included.minions,
        }
    }
}
