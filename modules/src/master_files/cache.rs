//! The files of the master that the minion has: `cachedir/files/ENVIRONMENT/PATH`, as Salt has them.

use std::path::{Path, PathBuf};

use saline_functions::Failure;
use saline_jailed_files::{InnerPath, JailedFile, ListingLimits, Root};
use saline_messages::{FilePlace, TransferDigest, TransferId};

/// The bounds of a listing of the cache.
const CACHE_LISTING_LIMITS: ListingLimits = ListingLimits {
    entries: 1_000_000,
    bytes: 48 * 1024 * 1024,
};

/// Bytes that are read at a time.
const BUFFER: usize = 256 * 1024;

/// The folder of the files that the minion has of the master.
#[derive(Debug)]
pub(crate) struct FileCache {
    root: Root,
    folder: PathBuf,
}

impl FileCache {
    /// Opens the cache, which is made if it is not there.
    pub(crate) fn open(cache_dir: &Path) -> Result<Self, Failure> {
        let folder = cache_dir.join("files");
        let failed = |why: std::io::Error| {
            Failure::Execution(format!(
                "the cache {} cannot be used: {why}",
                folder.display()
            ))
        };
        saline_private_files::create_folder(&folder).map_err(failed)?;
        let root = Root::open(&folder).map_err(failed)?;
        Ok(Self { root, folder })
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Returns the path of a file below the cache.
    ///
    /// # Errors
    /// When a name is no path.
    pub(crate) fn inner(&self, place: &FilePlace) -> Result<InnerPath, Failure> {
        let wrong = |error: saline_jailed_files::PathError| Failure::Invocation(error.to_string());
        let environment = InnerPath::parse(&place.environment).map_err(wrong)?;
        if environment.components().count() != 1 {
            return Err(Failure::Invocation(format!(
                "{:?} cannot be the name of an environment",
                place.environment
            )));
        }
        environment
            .join(&InnerPath::parse(&place.path).map_err(wrong)?)
            .map_err(wrong)
    }

    /// Returns the absolute path of a file of the cache.
    pub(crate) fn path(&self, inner: &InnerPath) -> PathBuf {
        self.folder.join(inner.as_str())
    }

    /// Opens a file of the cache; none if it is not there.
    pub(crate) fn file(&self, inner: &InnerPath) -> Option<JailedFile> {
        self.root.open_file(inner).ok()
    }

    /// Removes a file or a folder of the cache. One that cannot be removed is named in the log.
    pub(crate) fn forget(&self, place: &FilePlace) {
        let Ok(inner) = self.inner(place) else {
            return;
        };
        let removed = match self.root.is_folder(&inner) {
            Ok(true) => self.root.remove_folder(&inner),
            _ => self.root.remove(&inner),
        };
        if let Err(error) = removed {
            tracing::warn!("{} is left: {error}", self.path(&inner).display());
        }
    }

    /// Whether the cache has a file with this length and hash.
    pub(super) fn has(&self, inner: &InnerPath, size: u64, transfer: TransferId) -> bool {
        let file = self.file(inner).filter(|file| file.version().size == size);
        file.and_then(|file| hash(&file).ok()) == Some(transfer)
    }

    /// Returns the paths of all files of an environment that the cache has.
    pub(crate) fn list(&self, environment: &str) -> Result<Vec<String>, Failure> {
        let below = self.inner(&FilePlace {
            environment: environment.to_owned(),
            path: String::new(),
        })?;
        let Ok(listed) = self.root.list(&below, CACHE_LISTING_LIMITS, |_| true) else {
            return Ok(Vec::new());
        };
        let listed = listed.map_err(|error| Failure::Execution(error.to_string()))?;
        let files = listed
            .after(None)
            .filter(|entry| entry.kind == saline_jailed_files::EntryKind::File);
        let unfinished = |path: &&str| {
            !path
                .rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with(super::fetch::TEMPORARY))
        };
        Ok(files
            .map(|entry| entry.path)
            .filter(unfinished)
            .map(str::to_owned)
            .collect())
    }
}

/// Returns the hash of a file.
pub(crate) fn hash(file: &JailedFile) -> std::io::Result<TransferId> {
    let mut digest = TransferDigest::default();
    let mut buffer = vec![0; BUFFER];
    let mut offset = 0;
    loop {
        let read = file.read_at(&mut buffer, offset)?;
        if read == 0 {
            return Ok(digest.id());
        }
        digest.update(&buffer[..read]);
        offset += read as u64;
    }
}
