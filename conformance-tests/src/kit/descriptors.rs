//! The descriptors that a process may have.

use rustix::process::{Resource, getrlimit};

/// Descriptors that a requirement with a process of its own may need, both ends together.
pub(crate) const DESCRIPTORS: u64 = 16_384;

/// Whether this machine lets a process have as many descriptors as are needed.
pub(crate) fn enough_descriptors() -> bool {
    getrlimit(Resource::Nofile)
        .maximum
        .is_none_or(|most| most >= DESCRIPTORS)
}
