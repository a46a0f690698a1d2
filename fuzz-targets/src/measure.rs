//! What a piece of work costs: the memory that it holds at once, and its CPU time.

#![allow(
    unsafe_code,
    reason = "an allocator that counts can be made in no other way"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

thread_local! {
    /// The bytes that this thread allocated, less those that it freed. Below zero when it freed what others
    /// had allocated.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The largest value of it.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(change: isize) {
    // A thread that ends has no counters any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        PEAK.set(PEAK.get().max(held.get()));
    });
}

// SAFETY: every call is handed on to the system's allocator as it is, and counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may exist at once.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What a piece of work cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    /// The memory in bytes that was held at once, beyond what was held before.
    pub(crate) memory: usize,
    /// The CPU time of the thread.
    pub(crate) time: Duration,
}

/// Returns what `work` costs on this thread.
pub(crate) fn measure(work: impl FnOnce()) -> Used {
    let (before, began) = (HELD.get(), cpu_time());
    PEAK.set(before);
    work();
    Used {
        memory: usize::try_from(PEAK.get() - before).unwrap_or_default(),
        time: cpu_time().saturating_sub(began),
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_freed_again_counts() {
        let used = measure(|| drop(vec![1_u8; 100_000]));
        assert!((100_000..110_000).contains(&used.memory), "{used:?}");
        let one_after_the_other = measure(|| (0..100).for_each(|_| drop(vec![1_u8; 1000])));
        assert!(one_after_the_other.memory < 2_000);
    }
}
