//! What a decision is about: a function, minions, or what somebody ordered.

use saline_messages::{MinionId, PackedArguments};
use saline_targeting::{Target, TargetKind};

use super::AddressedJob;
#[cfg(doc)]
use super::{JobFunction, Principal};

/// What an action is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About<'a> {
    /// Nothing in particular.
    Nothing,
    /// A function with arguments, on these minions, or on the master.
    Function {
        fun: &'a str,
        arguments: &'a PackedArguments,
        minions: Reached<'a>,
        /// The job that the arguments name, if the function is a [`JobFunction`].
        job: Option<&'a AddressedJob>,
    },
    /// These minions.
    Minions(Reached<'a>),
    /// A job or a run, by the principal that ordered it, as [`Principal::owner`] names that.
    Owner(&'a str),
}

/// The minions that a target includes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached<'a> {
    pub(super) minions: &'a [MinionId],
    /// Whether a refusal names those outside of the rules. Where what minions say of themselves, or what root assigned to
    /// them, chose them, their names would tell that to somebody who has no rule about them.
    pub(super) may_be_named: bool,
    /// Whether the target names values of pillar. Whoever chooses by values finds them out.
    pub(super) by_pillar: bool,
}

impl<'a> Reached<'a> {
    /// The minions of what runs on the master alone: none.
    pub(crate) const NONE: Self = Self {
        minions: &[],
        may_be_named: true,
        by_pillar: false,
    };

    /// The minions that `target` includes.
    pub(crate) fn by(target: &Target, minions: &'a [MinionId]) -> Self {
        let may_be_named = match target.kind {
            TargetKind::Glob | TargetKind::List | TargetKind::Pcre => true,
            TargetKind::Grain
            | TargetKind::GrainPcre
            | TargetKind::IpCidr
            | TargetKind::Nodegroup
            | TargetKind::Compound
            | TargetKind::Pillar
            | TargetKind::PillarPcre
            | TargetKind::PillarExact
            | TargetKind::Assigned => false,
        };
        Self {
            minions,
            may_be_named,
            by_pillar: target.has_pillar_terms(),
        }
    }
}
