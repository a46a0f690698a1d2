//! Promises that a daemon breaks on purpose, so that `saline-chaos` shows that it would notice. In no
//! release.

/// Whether this process is to break the promise of this name, which `SALINE_CHAOS_SABOTAGE` sets.
pub fn is_on(name: &str) -> bool {
    std::env::var_os("SALINE_CHAOS_SABOTAGE").is_some_and(|set| set == name)
}
