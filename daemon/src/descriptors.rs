//! How many files and connections a process may have open.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit of open descriptors to the highest that the system lets it have, and
/// returns that; `None` stands for no limit. Systems start programs with a limit of 1,024, because
/// `select` cannot take more. A process that is started afterwards inherits the higher limit, unless its
/// description (`saline_exec::Limit`) sets another one.
///
/// # Errors
/// When the system refuses; the limit stays as it was.
pub fn raise_descriptors() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )?;
    Ok(limit.maximum)
}

/// Descriptors that a daemon keeps for its files, its store, its keys, its listeners and its local endpoint; of a small
/// limit, half.
pub const RESERVED_DESCRIPTORS: u64 = 128;

/// Returns how many descriptors the connections of the network may take, by this process's limit in force; `None` if
/// there is no limit.
pub fn connection_descriptors() -> Option<usize> {
    getrlimit(Resource::Nofile).current.map(without_reserved)
}

/// Returns how many of `all` descriptors connections may take.
fn without_reserved(all: u64) -> usize {
    let left = all - RESERVED_DESCRIPTORS.min(all / 2);
    usize::try_from(left).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_kept_back() {
        for (all, left) in [
            (0, 0),
            (64, 32),
            (256, 128),
            (400, 272),
            (1 << 20, (1 << 20) - 128),
        ] {
            assert_eq!(without_reserved(all), left, "of {all}");
        }
    }

    #[test]
    fn the_limit_is_the_highest_afterwards() {
        let most = raise_descriptors().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, most);
        assert_eq!(raise_descriptors().unwrap(), most, "and stays");
    }
}
