//! The verb that tells which minions a target includes.

use saline_messages::{OperatorReply, TargetMatches};
use saline_targeting::Target;

use crate::authorize::{About, Action, Authorizer, Principal, Reached};
use crate::orders::{ResolveError, ResolvedTarget, TargetResolver, given_up};

/// Answers questions about targets.
#[derive(Debug)]
pub struct TargetQueries {
    pub(crate) authorizer: Authorizer,
    pub(crate) targets: TargetResolver,
}

impl TargetQueries {
    /// Lists the minions that a target includes, if the principal has rules about all of them.
    pub(super) async fn matches(
        &self,
        principal: &Principal,
        target: Target,
        include_unknown: bool,
    ) -> OperatorReply {
        let asked = target.clone();
        match self.targets.resolve(target, include_unknown).await {
            Ok(ResolvedTarget {
                minions,
                without_grains,
                unknown,
                ..
            }) => {
                let about = About::Minions(Reached::by(&asked, &minions));
                let decided = self
                    .authorizer
                    .authorize(principal, Action::MatchTarget, about);
                match decided {
                    Ok(_) => OperatorReply::Matched(TargetMatches {
                        minions: minions.into_ids(),
                        without_grains: self.authorizer.known_to(principal, without_grains),
                        unknown,
                    }),
                    Err(refusal) => OperatorReply::NotAllowed(refusal.line),
                }
            }
            Err(ResolveError::Target(why)) => OperatorReply::BadTarget(why),
            Err(ResolveError::GivenUp(id)) => {
                let known = self.authorizer.known_to(principal, vec![id]);
                OperatorReply::BadTarget(given_up(known.first()))
            }
            Err(ResolveError::Keys(why)) => OperatorReply::Failed(why),
        }
    }
}
