//! Names in the file system that change places all the time, for tests of what opens files of others.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Two names that change places, each time in one step, until this is dropped.
#[derive(Debug)]
pub struct SwappedNames {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SwappedNames {
    /// Begins to swap the names, which both exist and are on one file system.
    pub fn new(a: PathBuf, b: PathBuf) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let swapped = renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE);
                if let Err(error) = swapped {
                    panic!("cannot swap {} and {}: {error}", a.display(), b.display());
                }
            }
        });
        let thread = Some(thread);
        Self { ends, thread }
    }
}

impl Drop for SwappedNames {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        // A second panic would hide what the test says.
        if !std::thread::panicking() {
            assert!(matches!(joined, Some(Ok(()))), "the names are not swapped");
        }
    }
}
