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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_highest_afterwards() {
        let most = raise_descriptors().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, most);
        assert_eq!(raise_descriptors().unwrap(), most, "and stays");
    }
}
