//! The verb that tells which minions a target includes.

use saline_messages::{OperatorReply, TargetMatches};
use saline_targeting::Target;

use crate::orders::{ResolveError, ResolvedTarget, TargetResolver};

/// Answers questions about targets.
#[derive(Debug)]
pub struct TargetQueries {
    pub(crate) targets: TargetResolver,
}

impl TargetQueries {
    /// Lists the minions that a target includes.
    pub(super) async fn matches(&self, target: Target, include_unknown: bool) -> OperatorReply {
        match self.targets.resolve(target, include_unknown).await {
            Ok(ResolvedTarget {
                minions,
                without_grains,
                unknown,
                ..
            }) => OperatorReply::Matched(TargetMatches {
                minions: minions.into_ids(),
                without_grains,
                unknown,
            }),
            Err(ResolveError::Target(why)) => OperatorReply::BadTarget(why),
            Err(ResolveError::Keys(why)) => OperatorReply::Failed(why),
        }
    }
}
