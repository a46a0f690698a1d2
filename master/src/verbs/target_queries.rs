//! The verbs that tell which minions a target includes, and what their grains are.

use std::sync::Arc;

use saline_data::Packed;
use saline_messages::{GrainsPage, MinionId, OperatorReply, TargetMatches};
use saline_targeting::{Grains as _, MAX_GRAINS, Target};

use crate::grains::GrainsTable;
use crate::orders::{ResolveError, ResolvedTarget, TargetResolver};

/// The bytes of grains in one page, beside the last ones.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Answers questions about targets and grains.
#[derive(Debug)]
pub struct TargetQueries {
    /// The largest message in bytes.
    pub(crate) max_message: usize,
    pub(crate) targets: TargetResolver,
    pub(crate) grains: Arc<GrainsTable>,
}

impl TargetQueries {
    /// Lists the minions that a target includes.
    pub(super) async fn matches(&self, target: Target) -> OperatorReply {
        match self.targets.resolve(target).await {
            Ok(ResolvedTarget {
                minions,
                unsure,
                unknown,
                ..
            }) => OperatorReply::Matched(TargetMatches {
                minions,
                unsure,
                unknown,
            }),
            Err(error) => refused(error),
        }
    }

    /// Returns a page of the grains of the minions that a target includes.
    pub(super) async fn grains(&self, target: Target, after: Option<&MinionId>) -> OperatorReply {
        let mut ids = match self.targets.resolve(target).await {
            Ok(resolved) => resolved.minions,
            Err(error) => return refused(error),
        };
        if let Some(after) = after {
            ids.retain(|id| id > after);
        }
        // One more has room behind those that fill a page.
        let most = PAGE_BYTES.min(self.max_message.saturating_sub(2 * MAX_GRAINS) / 2);
        let (mut minions, mut bytes) = (Vec::new(), 0);
        let mut ids = ids.into_iter();
        for id in ids.by_ref() {
            let known = self.grains.of(std::slice::from_ref(&id)).pop().flatten();
            let packed = known.map(|grains| Packed::pack(&grains.all()));
            bytes += id.as_str().len() + packed.as_ref().map_or(0, |p| p.as_bytes().len()) + 16;
            minions.push((id, packed));
            if bytes >= most {
                break;
            }
        }
        OperatorReply::Grains(GrainsPage {
            minions,
            more: ids.next().is_some(),
        })
    }
}

fn refused(error: ResolveError) -> OperatorReply {
    match error {
        ResolveError::Target(why) => OperatorReply::BadTarget(why),
        ResolveError::Keys(why) => OperatorReply::Failed(why),
    }
}
