//! How the system's allocator treats large blocks.
//!
//! glibc is told to give blocks of two mebibytes and more back when they are freed. mimalloc was tried: it took a
//! tenth less CPU time, and held six times the memory for each minion and as much after large returns.

/// The size of a block in bytes from which it is given back to the system when it is freed. A part of a return or of a file,
/// which has a mebibyte at most, is smaller: a new block for each would be filled with zeros by the system first.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 2 * 1024 * 1024;

/// Has glibc give large blocks back to the system as soon as they are freed. By itself it keeps blocks of
/// the size of the largest one that was freed so far, in each of its arenas: after three returns of
/// 10 MB a master held 125 MiB and a minion 64 MiB for good.
///
/// Does nothing with another allocator.
#[allow(unsafe_code, reason = "no crate offers mallopt")]
pub fn give_large_memory_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for setting in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: mallopt takes two numbers, may be called at any time, and returns 0 if it refuses.
        if unsafe { libc::mallopt(setting, LARGE) } == 0 {
            tracing::debug!("the allocator keeps large blocks: it refused setting {setting}");
        }
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    fn resident_mib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = status.split(' ').nth(1).unwrap().parse().unwrap();
        (pages * rustix::param::page_size() as u64) >> 20
    }

    #[test]
    fn a_large_block_is_given_back_also_after_a_larger_one() {
        give_large_memory_back();
        let before = resident_mib();
        for _ in 0..3 {
            // Freed in another order than allocated, as messages are.
            let mut blocks: Vec<Vec<u8>> = (0..8).map(|n| vec![1; (8 + n) << 20]).collect();
            let kept: Vec<u8> = vec![1; 100_000];
            blocks.swap(0, 5);
            drop(blocks);
            assert!(resident_mib() < before + 16, "{} MiB", resident_mib());
            drop(kept);
        }
    }
}
