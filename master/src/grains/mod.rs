//! The grains that minions reported, by which targets choose minions: in memory, and in a file, so that also a
//! minion that is away, or a master that was restarted, has its last known grains.
//!
//! Grains are what a minion says of itself. A minion that lies about them gets jobs that are meant for others. It
//! makes no other minion run them, since each minion matches the target itself again.
//!
//! Grains travel once: a session begins with their digest, and the master asks for them if it has others. In memory
//! they are packed, a few KiB a minion, and a grain is unpacked when a target looks at it.

mod file;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use saline_messages::{GrainsReport, MinionId};
use saline_protocol::transport::Context;
use saline_targeting::{GrainsError, PackedGrains};

use file::{GrainsFile, Row};

/// The largest number of minions whose grains are written in one transaction.
const BATCH: usize = 500;

/// The result of a report of grains.
#[derive(Debug)]
pub enum GrainsTaken {
    /// The table has these grains.
    Known,
    /// The table does not have the grains of this digest: the minion is to send them.
    Wanted,
    /// The grains cannot be taken.
    Refused(GrainsError),
}

/// The grains of one minion.
#[derive(Debug, Clone)]
struct KnownGrains {
    digest: [u8; 32],
    grains: Arc<PackedGrains>,
}

/// The grains of all minions.
#[derive(Debug)]
pub struct GrainsTable {
    minions: RwLock<HashMap<MinionId, KnownGrains>>,
    /// The minions whose grains were changed or forgotten since they were written to the file.
    unwritten: Mutex<HashSet<MinionId>>,
    file: Arc<Mutex<GrainsFile>>,
    /// Whether the last write failed; only the first failure is logged.
    failing: AtomicBool,
    context: Context,
}

impl GrainsTable {
    /// Opens the file, which is created (0600) as needed, and reads it. A file that is damaged is started over:
    /// minions report their grains again. Blocks on the disk.
    pub fn open(path: &Path, context: &Context) -> Self {
        let (file, rows) = GrainsFile::open(path);
        let minions = rows.into_iter().map(|Row { id, digest, grains }| {
            let grains = Arc::new(grains);
            (id, KnownGrains { digest, grains })
        });
        Self {
            minions: RwLock::new(minions.collect()),
            unwritten: Mutex::default(),
            file: Arc::new(Mutex::new(file)),
            failing: AtomicBool::new(false),
            context: context.clone(),
        }
    }

    /// Takes the report of a minion. What was known before is forgotten when the minion has other grains now, also
    /// if those cannot be taken: a minion without known grains is better than one with wrong ones.
    pub fn take(&self, id: &MinionId, report: &GrainsReport) -> GrainsTaken {
        let Some(packed) = &report.grains else {
            if self.digest_of(id) == Some(report.digest) {
                return GrainsTaken::Known;
            }
            self.forget(id);
            return GrainsTaken::Wanted;
        };
        let grains = match PackedGrains::read(packed) {
            Ok(grains) => Arc::new(grains),
            Err(error) => {
                self.forget(id);
                return GrainsTaken::Refused(error);
            }
        };
        // The digest in the report is only what the minion says.
        let digest = GrainsReport::digest_of(packed);
        let known = KnownGrains { digest, grains };
        self.minions
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), known);
        lock(&self.unwritten).insert(id.clone());
        GrainsTaken::Known
    }

    fn digest_of(&self, id: &MinionId) -> Option<[u8; 32]> {
        let minions = self.minions.read().unwrap_or_else(PoisonError::into_inner);
        minions.get(id).map(|known| known.digest)
    }

    /// Returns the grains of each of these minions, in their order; none for those that are not known.
    pub fn of(&self, ids: &[MinionId]) -> Vec<Option<Arc<PackedGrains>>> {
        let minions = self.minions.read().unwrap_or_else(PoisonError::into_inner);
        let known = ids
            .iter()
            .map(|id| minions.get(id).map(|known| Arc::clone(&known.grains)));
        known.collect()
    }

    /// Forgets the grains of a minion, whose key is accepted no more.
    pub fn forget(&self, id: &MinionId) {
        let mut minions = self.minions.write().unwrap_or_else(PoisonError::into_inner);
        if minions.remove(id).is_some() {
            lock(&self.unwritten).insert(id.clone());
        }
    }

    /// Forgets the grains of all minions that are not to be kept.
    pub fn retain(&self, is_kept: impl Fn(&MinionId) -> bool) {
        let gone: Vec<MinionId> = {
            let minions = self.minions.read().unwrap_or_else(PoisonError::into_inner);
            let others = minions.keys().filter(|id| !is_kept(id));
            others.cloned().collect()
        };
        gone.iter().for_each(|id| self.forget(id));
    }

    /// Writes what has changed into the file.
    ///
    /// # Cancel safety
    /// When the future is dropped, what it took may be written at the next change only.
    pub async fn flush(&self) {
        loop {
            let ids: Vec<MinionId> = {
                let mut unwritten = lock(&self.unwritten);
                let taken: Vec<MinionId> = unwritten.iter().take(BATCH).cloned().collect();
                taken.iter().for_each(|id| {
                    unwritten.remove(id);
                });
                taken
            };
            if ids.is_empty() {
                return;
            }
            if !self.write(&ids).await {
                lock(&self.unwritten).extend(ids);
                return;
            }
        }
    }

    /// Writes the grains of these minions, and returns whether that worked.
    async fn write(&self, ids: &[MinionId]) -> bool {
        let rows: Vec<(MinionId, Option<KnownGrains>)> = {
            let minions = self.minions.read().unwrap_or_else(PoisonError::into_inner);
            let rows = ids.iter().map(|id| (id.clone(), minions.get(id).cloned()));
            rows.collect()
        };
        let file = Arc::clone(&self.file);
        let written = self
            .context
            .spawn_blocking(move || {
                let rows = rows.iter().map(|(id, known)| {
                    let known = known.as_ref();
                    (id, known.map(|known| (known.digest, known.grains.as_ref())))
                });
                lock(&file).write(rows)
            })
            .await;
        match written {
            Ok(Ok(())) => {
                self.failing.store(false, Ordering::Relaxed);
                true
            }
            Ok(Err(error)) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "the grains of minions cannot be written, and are tried again: {error}"
                    );
                }
                false
            }
            // The code of the file panicked, which the runtime logs.
            Err(_) => false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in one step, so a poisoned lock is still valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use saline_data::{Packed, Value};
    use saline_targeting::Grains as _;

    use super::*;

    fn id(text: &str) -> MinionId {
        MinionId::parse(text).unwrap()
    }

    fn report(os: &str) -> GrainsReport {
        let packed = Packed::pack(&Value::map([("os", Value::from(os))]));
        GrainsReport {
            digest: GrainsReport::digest_of(&packed),
            grains: Some(packed),
        }
    }

    fn os(table: &GrainsTable, minion: &str) -> Option<String> {
        let grains = table.of(&[id(minion)]).remove(0)?;
        Some(grains.grain("os")?.as_str()?.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn grains_are_sent_once_and_outlive_the_master() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grains.sqlite");
        let context = Context::default();
        let table = GrainsTable::open(&path, &context);
        let all = report("Debian");
        let digest = GrainsReport {
            grains: None,
            ..all.clone()
        };
        assert!(matches!(
            table.take(&id("m1"), &digest),
            GrainsTaken::Wanted
        ));
        assert!(matches!(table.take(&id("m1"), &all), GrainsTaken::Known));
        assert!(matches!(table.take(&id("m1"), &digest), GrainsTaken::Known));
        assert!(matches!(
            table.take(&id("m2"), &digest),
            GrainsTaken::Wanted
        ));
        assert!(matches!(
            table.take(&id("m2"), &report("Arch")),
            GrainsTaken::Known
        ));
        table.flush().await;
        table.forget(&id("m2"));
        table.flush().await;
        drop(table);

        let table = GrainsTable::open(&path, &context);
        assert_eq!(os(&table, "m1").as_deref(), Some("Debian"));
        assert_eq!(os(&table, "m2"), None, "its key was deleted");
        assert!(matches!(table.take(&id("m1"), &digest), GrainsTaken::Known));
        table.retain(|kept| [id("m0"), id("m3")].contains(kept));
        assert_eq!(os(&table, "m1"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_are_no_grains_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grains.sqlite");
        let table = GrainsTable::open(&path, &Context::default());
        let mut wrong = report("x");
        wrong.grains = Some(Packed::from_bytes(vec![0xc1]));
        assert!(matches!(
            table.take(&id("m1"), &wrong),
            GrainsTaken::Refused(_)
        ));
        assert_eq!(os(&table, "m1"), None);
        // A digest that fits other grains than those that came.
        let mut lying = report("Debian");
        lying.digest = report("Arch").digest;
        assert!(matches!(table.take(&id("m1"), &lying), GrainsTaken::Known));
        lying.grains = None;
        assert!(matches!(table.take(&id("m1"), &lying), GrainsTaken::Wanted));
    }

    #[tokio::test]
    async fn a_damaged_file_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grains.sqlite");
        std::fs::write(&path, vec![b'x'; 8192]).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let table = GrainsTable::open(&path, &Context::default());
        assert!(matches!(
            table.take(&id("m1"), &report("x")),
            GrainsTaken::Known
        ));
        table.flush().await;
        drop(table);
        let table = GrainsTable::open(&path, &Context::default());
        assert_eq!(os(&table, "m1").as_deref(), Some("x"));
    }
}
