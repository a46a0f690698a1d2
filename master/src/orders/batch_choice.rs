//! Decides whether a job is carried out in batches.

use saline_messages::{Batch, BatchRequest};

use crate::settings::SafeBatch;

/// Returns how a job that matches so many minions is carried out in batches, if it is. `queues` says that it waits for
/// minions that are away.
pub(super) fn choose(
    request: &BatchRequest,
    safe: SafeBatch,
    matched: usize,
    queues: bool,
) -> Option<Batch> {
    let limit = request.safe_limit.unwrap_or(safe.limit);
    let size = match request.size {
        Some(size) => size.of(matched),
        None if limit > 0 && matched >= limit as usize => {
            let size = request.safe_size.unwrap_or(safe.size);
            // A batch of all would only be slower.
            if size as usize >= matched {
                return None;
            }
            size
        }
        None => return None,
    };
    Some(Batch {
        size: size.max(1),
        wait_ms: request.wait_ms,
        timeout_ms: request.timeout_ms,
        failhard: request.failhard,
        queues,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_messages::BatchSize;

    const SAFE: SafeBatch = SafeBatch {
        limit: 100,
        size: 8,
    };

    fn size(request: &BatchRequest, safe: SafeBatch, matched: usize) -> Option<u32> {
        choose(request, safe, matched, false).map(|batch| batch.size)
    }

    #[test]
    fn a_job_for_many_becomes_a_batch_from_the_safe_limit_on() {
        let unasked = BatchRequest::default();
        assert_eq!(size(&unasked, SAFE, 99), None);
        assert_eq!(size(&unasked, SAFE, 100), Some(8));
        let never = SafeBatch { limit: 0, ..SAFE };
        assert_eq!(size(&unasked, never, 1_000_000), None);
        let lower = BatchRequest {
            safe_limit: Some(10),
            safe_size: Some(0),
            ..unasked
        };
        assert_eq!(size(&lower, SAFE, 9), None);
        assert_eq!(size(&lower, never, 10), Some(1));
        let large = BatchRequest {
            safe_size: Some(120),
            ..unasked
        };
        assert_eq!(size(&large, SAFE, 120), None);
        assert_eq!(size(&large, SAFE, 121), Some(120));
        let off = BatchRequest {
            safe_limit: Some(0),
            ..unasked
        };
        assert_eq!(size(&off, SAFE, 1_000), None);
    }

    #[test]
    fn a_size_that_is_asked_for_counts_whatever_matches() {
        let asked = BatchRequest {
            size: Some(BatchSize::Percent(10)),
            safe_size: Some(3),
            ..BatchRequest::default()
        };
        assert_eq!(size(&asked, SAFE, 5), Some(1));
        assert_eq!(size(&asked, SAFE, 500), Some(50));
    }
}
