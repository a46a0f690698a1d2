//! The files of an environment, listed for many minions at once.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_jailed_files::{Entry, EntryKind, InnerPath, Listing, ListingLimits, OpenError, Root};
use saline_messages::{FileEntry, FileKind, FileRefusal, FilesPage};
use saline_protocol::transport::{Context, Instant};
use tokio::sync::Semaphore;

use super::no_answer::{NoAnswer, WAIT};
use crate::settings::ServedFiles;

/// The longest time for which a listing is used: Salt's `fileserver_list_cache_time` is as long.
const LISTING_LIFETIME: Duration = Duration::from_secs(20);

/// A listing is used for this many times the time that it took, up to [`LISTING_LIFETIME`]. So the listings of one folder that take up
/// to a fifth of a second take a hundredth of the master's time at most, and what is put into a small folder is seen soon.
const LIFETIME_PER_COST: u32 = 100;

/// The most bytes of all listings that are kept.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The bounds of one listing.
const LISTING_LIMITS: ListingLimits = ListingLimits {
    entries: 1_000_000,
    bytes: 48 * 1024 * 1024,
};

/// The most bytes of a page.
const MAX_PAGE: usize = 256 * 1024;

/// The bytes of an entry of a page beside its path, at most.
const ENTRY: usize = 8;

/// The listings that were made lately.
#[derive(Debug)]
pub(super) struct Listings {
    context: Context,
    /// Has one permit, for whoever lists: a second one finds what the first has made.
    turn: Arc<Semaphore>,
    kept: Arc<Mutex<VecDeque<Kept>>>,
}

#[derive(Debug)]
struct Kept {
    environment: String,
    below: InnerPath,
    until: Instant,
    listing: Arc<EnvironmentListing>,
}

/// The files and folders of all roots of an environment. Of a path that several have, the first root's counts.
#[derive(Debug)]
pub(crate) struct EnvironmentListing {
    roots: Vec<Listing>,
}

impl Listings {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            turn: Arc::new(Semaphore::new(1)),
            kept: Arc::default(),
        }
    }

    /// Returns what lies below a folder of an environment.
    pub(super) async fn of(
        &self,
        served: &Arc<ServedFiles>,
        environment: &str,
        roots: &[PathBuf],
        below: InnerPath,
    ) -> Result<Arc<EnvironmentListing>, NoAnswer> {
        if let Some(listing) = self.known(environment, &below) {
            return Ok(listing);
        }
        let clock = self.context.clock;
        let turn = clock.deadline(clock.after(WAIT), Arc::clone(&self.turn).acquire_owned());
        let turn = turn.await.ok().and_then(Result::ok).ok_or(NoAnswer::Busy)?;
        // Another one may have made it meanwhile.
        if let Some(listing) = self.known(environment, &below) {
            return Ok(listing);
        }
        let (served, roots) = (Arc::clone(served), roots.to_vec());
        let (environment, kept) = (environment.to_owned(), Arc::clone(&self.kept));
        let listing = self.context.spawn_blocking(move || {
            let began = clock.now();
            let listing = Arc::new(list(&served, &roots, &below)?);
            let lifetime = (clock.now() - began) * LIFETIME_PER_COST;
            let mut kept = lock(&kept);
            kept.push_back(Kept {
                environment,
                below,
                until: clock.after(lifetime.min(LISTING_LIFETIME)),
                listing: Arc::clone(&listing),
            });
            while kept.len() > 1
                && kept.iter().map(|k| k.listing.bytes()).sum::<usize>() > MAX_BYTES
            {
                kept.pop_front();
            }
            drop(turn);
            Ok(listing)
        });
        match clock.deadline(clock.after(WAIT), listing).await {
            Ok(Ok(listing)) => listing.map_err(NoAnswer::Refused),
            // It panicked, which the runtime logs.
            Ok(Err(_)) => Err(FileRefusal::Failed.into()),
            Err(_) => Err(NoAnswer::Busy),
        }
    }

    /// Forgets all listings, and returns how many there were.
    pub(super) fn forget(&self) -> usize {
        lock(&self.kept).drain(..).count()
    }

    fn known(&self, environment: &str, below: &InnerPath) -> Option<Arc<EnvironmentListing>> {
        let now = self.context.clock.now();
        let mut kept = lock(&self.kept);
        kept.retain(|kept| kept.until > now);
        let found = kept
            .iter()
            .find(|kept| kept.environment == environment && kept.below == *below);
        found.map(|kept| Arc::clone(&kept.listing))
    }
}

fn lock(kept: &Mutex<VecDeque<Kept>>) -> MutexGuard<'_, VecDeque<Kept>> {
    // Every change under this lock is complete in one step, so a poisoned lock is still valid.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn list(
    served: &ServedFiles,
    roots: &[PathBuf],
    below: &InnerPath,
) -> Result<EnvironmentListing, FileRefusal> {
    let mut listings = Vec::new();
    let mut limits = LISTING_LIMITS;
    for folder in roots {
        let Ok(root) = Root::open(folder) else {
            continue;
        };
        let listed = match root.list(below, limits, |path| !served.is_ignored(path)) {
            Ok(listed) => listed.map_err(|_| FileRefusal::TooMany)?,
            Err(OpenError::NotFound) => continue,
            Err(OpenError::LeadsOut | OpenError::TooManyLinks) => return Err(FileRefusal::BadPath),
            Err(error) => {
                tracing::warn!(
                    "{} cannot be listed: {error}",
                    folder.join(below.as_str()).display()
                );
                return Err(FileRefusal::Failed);
            }
        };
        limits.entries -= listed.len().min(limits.entries);
        limits.bytes -= listed.bytes().min(limits.bytes);
        listings.push(listed);
    }
    match listings.is_empty() && !below.is_root() {
        true => Err(FileRefusal::NoFile),
        false => Ok(EnvironmentListing { roots: listings }),
    }
}

impl EnvironmentListing {
    fn bytes(&self) -> usize {
        self.roots.iter().map(Listing::bytes).sum()
    }

    /// Returns a page of what comes behind a path, of about so many bytes.
    pub(super) fn page(&self, after: Option<&str>, bytes: u64) -> FilesPage {
        let most = usize::try_from(bytes).map_or(MAX_PAGE, |bytes| bytes.min(MAX_PAGE));
        let mut page = FilesPage::default();
        let mut size = 0;
        for entry in self.after(after) {
            size += entry.path.len() + ENTRY;
            if size > most && !page.entries.is_empty() {
                page.more = true;
                break;
            }
            page.entries.push(FileEntry {
                path: entry.path.to_owned(),
                kind: match entry.kind {
                    EntryKind::File => FileKind::File,
                    EntryKind::Folder => FileKind::Folder,
                    EntryKind::EmptyFolder => FileKind::EmptyFolder,
                },
                is_link: entry.is_link,
            });
        }
        page
    }

    /// Returns what comes behind a path, or everything: the roots put together in the order of the paths.
    pub(crate) fn after<'a>(&'a self, path: Option<&str>) -> impl Iterator<Item = Entry<'a>> {
        let mut heads: Vec<_> = self
            .roots
            .iter()
            .map(|root| root.after(path).peekable())
            .collect();
        std::iter::from_fn(move || {
            let least = heads
                .iter_mut()
                .filter_map(|head| head.peek().map(|entry| entry.path))
                .min_by(|a, b| a.split('/').cmp(b.split('/')))?;
            let mut first = None;
            for head in &mut heads {
                if let Some(entry) = head.next_if(|entry| entry.path == least) {
                    first.get_or_insert(entry);
                }
            }
            first
        })
    }
}
