//! The verb that tells which minions a target includes.

use saline_messages::{OperatorReply, TargetMatches};
use saline_targeting::Target;

use crate::authorize::{About, Action, Authorizer, Principal, Reached};
use crate::orders::{ResolveError, ResolvedTarget, TargetResolver};

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
        if asked.has_pillar_terms() {
            // What comes of the search would tell of values.
            let about = About::Minions(Reached::by(&asked, &[]));
            let decided = self
                .authorizer
                .authorize(principal, Action::MatchTarget, about);
            if let Err(refusal) = decided {
                return OperatorReply::NotAllowed(refusal.line);
            }
        }
        match self.targets.resolve(target, include_unknown).await {
            Ok(ResolvedTarget {
                minions,
                without_grains,
                without_pillar,
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
                        without_pillar: self.authorizer.known_to(principal, without_pillar),
                        unknown,
                    }),
                    Err(refusal) => OperatorReply::NotAllowed(refusal.line),
                }
            }
            Err(error) => unresolved(error.told_to(principal, &self.authorizer)),
        }
    }
}

/// Returns the reply to a request whose target was not resolved.
pub(super) fn unresolved(error: ResolveError) -> OperatorReply {
    match error {
        ResolveError::Target(why) => OperatorReply::BadTarget(why),
        ResolveError::GivenUp(_) => OperatorReply::BadTarget(error.to_string()),
        ResolveError::Keys(why) => OperatorReply::Failed(why),
    }
}
