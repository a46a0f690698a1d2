//! The functions that minions reported, by which a job is refused whose function none of its minions can know.
//!
//! A report belongs to a session: in the next one the minion may be of another version. Functions travel once, as grains do:
//! a session begins with their digest, and the master asks for them if no session has the same ones. Most minions of a fleet
//! have the same functions, so that the master keeps them once for all.

mod names_file;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use saline_messages::{FunctionsError, FunctionsReport, MinionFunctions};
use saline_protocol::transport::Context;

use names_file::NamesFile;

/// The number of sets from which on those that no session has are looked for.
const FIRST_CLEANING: usize = 64;

/// The result of a report of functions.
#[derive(Debug)]
pub(crate) enum FunctionsTaken {
    /// The functions of the minion are these.
    Known(Arc<MinionFunctions>),
    /// The master does not have the functions of this digest: the minion is to send them.
    Wanted,
    /// The functions cannot be taken.
    Refused(FunctionsError),
}

/// The functions of all sessions, each set once.
#[derive(Debug)]
pub(crate) struct FunctionsTable {
    sets: Mutex<Sets>,
    file: Arc<Mutex<NamesFile>>,
    context: Context,
}

/// The sets of functions by their digests. Sessions own them.
#[derive(Debug, Default)]
struct Sets {
    known: HashMap<[u8; 32], Weak<MinionFunctions>>,
    /// The number of sets at which those that no session has are removed.
    cleaned_at: usize,
    /// Whether a set was added since the names were written.
    has_more: bool,
}

impl FunctionsTable {
    /// Creates a table without functions, whose names of operators' own functions are written to `path`.
    pub(crate) fn new(path: PathBuf, context: &Context) -> Self {
        Self {
            sets: Mutex::default(),
            file: Arc::new(Mutex::new(NamesFile::new(path))),
            context: context.clone(),
        }
    }

    /// Takes the report of a minion, and returns the functions that its session has from then on.
    pub(crate) fn take(&self, report: &FunctionsReport) -> FunctionsTaken {
        let Some(bytes) = &report.functions else {
            let sets = lock(&self.sets);
            let known = sets.known.get(&report.digest).and_then(Weak::upgrade);
            return known.map_or(FunctionsTaken::Wanted, FunctionsTaken::Known);
        };
        let functions = match MinionFunctions::from_bytes(bytes) {
            Ok(functions) => Arc::new(functions),
            Err(error) => return FunctionsTaken::Refused(error),
        };
        // The digest in the report is only what the minion says.
        let digest = FunctionsReport::digest_of(bytes);
        FunctionsTaken::Known(lock(&self.sets).add(digest, functions))
    }

    /// Writes the names of operators' own functions for completion, if there are others than before.
    ///
    /// # Cancel safety
    /// When the future is dropped, the names may be written at the next change only.
    pub(crate) async fn flush(&self) {
        let names: BTreeSet<String> = {
            let mut sets = lock(&self.sets);
            if !std::mem::take(&mut sets.has_more) {
                return;
            }
            let sets = sets.known.values().filter_map(Weak::upgrade);
            sets.flat_map(|set| set.own.iter().cloned().collect::<Vec<_>>())
                .collect()
        };
        let file = Arc::clone(&self.file);
        let written = self
            .context
            .spawn_blocking(move || lock(&file).write(names));
        // An error means that the code of the file panicked, which the runtime logs.
        let _ = written.await;
    }
}

impl Sets {
    /// Adds a set, and returns the one that all sessions have.
    fn add(&mut self, digest: [u8; 32], functions: Arc<MinionFunctions>) -> Arc<MinionFunctions> {
        if let Some(known) = self.known.get(&digest).and_then(Weak::upgrade) {
            return known;
        }
        if self.known.len() >= self.cleaned_at.max(FIRST_CLEANING) {
            self.known.retain(|_, set| set.strong_count() > 0);
            // So that each set is looked at a few times only, however many there are.
            self.cleaned_at = 2 * self.known.len();
        }
        self.known.insert(digest, Arc::downgrade(&functions));
        self.has_more = true;
        functions
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in one step, so a poisoned lock is still valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(own: &str) -> FunctionsReport {
        let functions = MinionFunctions {
            built_in: ["test.ping".to_owned()].into(),
            own: own.split_whitespace().map(str::to_owned).collect(),
            ..MinionFunctions::default()
        };
        let bytes = functions.to_bytes();
        FunctionsReport {
            digest: FunctionsReport::digest_of(&bytes),
            functions: Some(bytes),
        }
    }

    fn known(taken: FunctionsTaken) -> Arc<MinionFunctions> {
        match taken {
            FunctionsTaken::Known(functions) => functions,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn functions_are_kept_once_for_as_long_as_a_session_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let table = FunctionsTable::new(folder.path().join("names"), &Context::default());
        let all = report("vhosts.enable");
        let digest = FunctionsReport {
            functions: None,
            ..all.clone()
        };
        assert!(matches!(table.take(&digest), FunctionsTaken::Wanted));
        let first = known(table.take(&all));
        assert!(first.may_know("vhosts.enable"));
        assert!(Arc::ptr_eq(&first, &known(table.take(&all))));
        assert!(Arc::ptr_eq(&first, &known(table.take(&digest))));
        drop(first);
        assert!(matches!(table.take(&digest), FunctionsTaken::Wanted));

        // A digest that fits other functions than those that came.
        let mut lying = report("backups.run");
        lying.digest = all.digest;
        let other = known(table.take(&lying));
        assert!(matches!(table.take(&digest), FunctionsTaken::Wanted));
        drop(other);

        let mut wrong = report("");
        wrong.functions = Some(vec![0xff; 20]);
        assert!(matches!(table.take(&wrong), FunctionsTaken::Refused(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn sets_that_no_session_has_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let table = FunctionsTable::new(folder.path().join("names"), &Context::default());
        let kept: Vec<_> = (0..100)
            .map(|n| known(table.take(&report(&format!("kept.f{n}")))))
            .collect();
        for n in 0..10_000 {
            known(table.take(&report(&format!("gone.f{n}"))));
            assert!(lock(&table.sets).known.len() <= 2 * kept.len());
        }
        for n in 0..100 {
            let digest = FunctionsReport {
                functions: None,
                ..report(&format!("kept.f{n}"))
            };
            known(table.take(&digest));
        }
    }

    #[tokio::test]
    async fn the_names_of_own_functions_are_written_for_completion() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("names");
        let table = FunctionsTable::new(path.clone(), &Context::default());
        table.flush().await;
        assert!(!path.exists());
        let first = known(table.take(&report("vhosts.enable vhosts.disable")));
        let _second = known(table.take(&report("backups.run vhosts.enable")));
        table.flush().await;
        let read = || std::fs::read_to_string(&path).unwrap();
        assert_eq!(read(), "backups.run\nvhosts.disable\nvhosts.enable\n");
        // Those of minions that are away now stay until there are others.
        drop(first);
        table.flush().await;
        assert_eq!(read(), "backups.run\nvhosts.disable\nvhosts.enable\n");
        let _third = known(table.take(&report("")));
        table.flush().await;
        assert_eq!(read(), "backups.run\nvhosts.enable\n");
    }
}
