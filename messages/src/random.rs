//! Randomness, from the operating system and from nowhere else.
//!
//! Not from aws-lc-rs: its generator first measures the jitter of the processor, some 30 ms of work
//! that a command line of a few milliseconds would pay each time.

/// The operating system has no randomness to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system has no randomness")]
pub struct NoRandomness;

/// Fills `bytes` with randomness that is good for keys.
///
/// # Errors
/// When the operating system has none to give.
pub fn fill(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    getrandom::fill(bytes).map_err(|_| NoRandomness)
}

/// `N` random bytes that are good for keys.
///
/// # Errors
/// When the operating system has none to give.
pub fn bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}
