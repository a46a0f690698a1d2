//! Operators' own functions: an executable named `NAME` in a folder of `module_dirs` is the module `NAME`, in any language.
//!
//! Called with `--describe` it prints which functions it has ([`description`]). Called without arguments it reads one call as
//! JSON from its standard input, and prints what the function returns as JSON; its exit status is the retcode ([`call`]).
//! An executable is described when somebody first asks for its functions, and again when its file has changed. One that failed to is
//! left out of listings for a minute, unless its file changes, so that it holds up
//! one question about others a minute at most.

mod call;
mod description;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_functions::{Failure, Function, Registry};
use saline_private_files::{Changeable, changeable};
use saline_protocol::transport::{Clock, Instant};
use serde::{Deserialize, Serialize};

use crate::JobContext;
use crate::command::Command;
use description::Description;

pub(crate) use call::excerpt;

/// The largest number of executables.
const MAX_MODULES: usize = 256;

/// How long an executable may take to describe its functions.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long listings leave an executable out that did not describe its functions.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The executables that are modules.
#[derive(Debug, Default)]
pub struct Executables {
    folders: Vec<PathBuf>,
    described: Mutex<BTreeMap<PathBuf, Arc<Executable>>>,
    failed: Mutex<BTreeMap<PathBuf, FailedDescription>>,
}

/// A description that a listing did not get.
#[derive(Debug)]
struct FailedDescription {
    /// None for a file that nobody may run.
    version: Option<FileVersion>,
    /// When it is asked again.
    until: Instant,
}

/// An executable that has described its functions.
#[derive(Debug)]
struct Executable {
    file: DescribedFile,
    /// The version of the module, for people.
    version: Option<String>,
    functions: Vec<Described>,
}

/// The file of an executable, and what it printed about its functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DescribedFile {
    path: PathBuf,
    version: FileVersion,
    printed: Vec<u8>,
}

/// A function of an executable.
#[derive(Debug)]
struct Described {
    function: Function<JobContext<'static>>,
    /// How long a call may take.
    time: Duration,
    /// The user that the executable runs as; the minion's own if there is none.
    user: Option<String>,
}

/// The version of a file: another one has another of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Executables {
    /// Creates the set of the executables in these folders. When several have the same name, the first folder's is taken.
    pub fn in_folders(folders: Vec<PathBuf>) -> Self {
        Self {
            folders,
            described: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Whether there are folders to look into.
    pub fn are_wanted(&self) -> bool {
        !self.folders.is_empty()
    }

    /// Whether there are folders but this one.
    pub(crate) fn have_other_folders(&self, folder: &Path) -> bool {
        self.folders.iter().any(|other| other != folder)
    }

    /// Returns when each folder was changed last: an executable that is added, replaced or removed changes its folder. Blocks on
    /// the disk.
    pub fn folder_changes(&self) -> Vec<Option<(i64, i64)>> {
        let folders = self.folders.iter();
        let found = folders.map(|folder| fs::metadata(folder).ok());
        found
            .map(|found| found.map(|found| (found.ctime(), found.ctime_nsec())))
            .collect()
    }

    /// Returns the modules, each with the names of its functions; none for one that has not described them, and for a file
    /// whose name has an extension, of which a call says that it is to be renamed. Blocks on the disk.
    pub(crate) fn known(&self) -> BTreeMap<String, Option<Vec<String>>> {
        let mut known: BTreeMap<String, Option<Vec<String>>> = BTreeMap::new();
        for (module, path) in self.all() {
            known.insert(module, self.described_names(&path));
        }
        for entry in self
            .folders
            .iter()
            .flat_map(fs::read_dir)
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let stem = stem.filter(|stem| path.extension().is_some() && is_module_name(stem));
            if let Some(stem) = stem
                && known.len() < 2 * MAX_MODULES
            {
                known.entry(stem.to_owned()).or_insert(None);
            }
        }
        known
    }

    /// Returns the modules that say which version they have, with it. Blocks on the disk.
    pub(crate) fn versions(&self) -> BTreeMap<String, String> {
        let all = self.all().into_iter();
        all.filter_map(|(module, path)| {
            Some((module, self.still_described(&path)?.version.clone()?))
        })
        .collect()
    }

    /// Returns the functions that the executable has described, if its file is still the one that did.
    fn described_names(&self, path: &Path) -> Option<Vec<String>> {
        let known = self.still_described(path)?;
        let functions = known.functions.iter();
        Some(functions.map(|one| one.function.name.to_string()).collect())
    }

    /// Returns what the executable has described, if its file is still the one that did.
    fn still_described(&self, path: &Path) -> Option<Arc<Executable>> {
        let known = self.lock().get(path).cloned()?;
        let version = trusted(path).ok()?;
        (known.file.version == version).then_some(known)
    }

    /// Returns the function `fun`; none if no executable has the name of its module.
    ///
    /// # Errors
    /// When the executable is refused or does not describe its functions, and when it has no such function.
    pub fn get(
        &self,
        fun: &str,
        job: &JobContext<'_>,
    ) -> Result<Option<Function<JobContext<'static>>>, Failure> {
        let Some((module, name)) = fun.split_once('.') else {
            return Ok(None);
        };
        let Some(path) = self.path(module) else {
            return Ok(None);
        };
        let executable = self.describe(&path, job)?;
        let found = executable.functions.iter();
        let found = found.map(|one| &one.function).find(|f| f.name == name);
        found.cloned().map(Some).ok_or_else(|| {
            let names: Vec<&str> = executable
                .functions
                .iter()
                .map(|f| &*f.function.name)
                .collect();
            Failure::Ended {
                text: format!(
                    "'{fun}' is not available: {} describes the functions {}",
                    path.display(),
                    names.join(", ")
                ),
                retcode: crate::outcome::RETCODE_NOT_AVAILABLE,
            }
        })
    }

    /// Returns the executables of the same folders, none of which was asked for its functions yet.
    pub fn again(&self) -> Self {
        Self::in_folders(self.folders.clone())
    }

    /// Returns a registry with the functions of the executables beside those in `built_in`, whose modules they never replace.
    /// An executable that is refused or does not describe its functions is left out, and the log says why.
    pub fn beside(
        &self,
        built_in: &Registry<JobContext<'static>>,
        is_taken: impl Fn(&str) -> bool,
        job: &JobContext<'_>,
    ) -> Registry<JobContext<'static>> {
        let mut all = built_in.clone();
        for (module, path) in self.all() {
            if is_taken(&module) {
                tracing::warn!(
                    "{} is not used: the minion has a module {module} of its own; give the executable another name",
                    path.display()
                );
                continue;
            }
            if let Some(executable) = self.describe_for_listing(&path, job) {
                let functions = executable.functions.iter().map(|one| &one.function);
                all = all.with(&module, functions);
            }
        }
        all
    }

    /// Returns the executable as [`describe`](Self::describe) does; none when it failed, which is logged, or did a moment ago.
    fn describe_for_listing(&self, path: &Path, job: &JobContext<'_>) -> Option<Arc<Executable>> {
        if let Some(known) = self.still_described(path) {
            return Some(known);
        }
        let version = trusted(path).ok();
        let failed = || self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_left_out =
            |failed: &FailedDescription| failed.version == version && Clock.now() < failed.until;
        if failed().get(path).is_some_and(is_left_out) {
            return None;
        }
        let described = self.describe(path, job);
        match &described {
            Ok(_) => drop(failed().remove(path)),
            // It was not the executable that failed.
            Err(_) if job.job.ending().is_some() => {}
            Err(failure) => {
                tracing::warn!("{failure}");
                let until = Clock.after(ASKED_AGAIN_AFTER);
                failed().insert(path.to_owned(), FailedDescription { version, until });
            }
        }
        described.ok()
    }

    /// Returns a file that is not taken for the module `module`, since its name has an extension.
    pub fn misnamed(&self, module: &str) -> Option<PathBuf> {
        self.folders.iter().find_map(|folder| {
            let entries = fs::read_dir(folder).ok()?.flatten();
            let mut paths = entries.map(|entry| entry.path());
            paths.find(|path| {
                path.extension().is_some() && path.file_stem() == Some(module.as_ref())
            })
        })
    }

    /// Returns the path of the executable of a module.
    pub(crate) fn path(&self, module: &str) -> Option<PathBuf> {
        if !is_module_name(module) {
            return None;
        }
        let paths = self.folders.iter().map(|folder| folder.join(module));
        paths.into_iter().find(|path| path.is_file())
    }

    /// Returns the executables by the names of their modules.
    fn all(&self) -> BTreeMap<String, PathBuf> {
        let mut all = BTreeMap::new();
        for folder in &self.folders {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let name = name.to_str().filter(|name| is_module_name(name));
                if let Some(name) = name.filter(|_| entry.path().is_file()) {
                    all.entry(name.to_owned()).or_insert_with(|| entry.path());
                }
                if all.len() == MAX_MODULES {
                    tracing::warn!(
                        "{} and later folders of module_dirs are not read further: there are {MAX_MODULES} executables",
                        folder.display()
                    );
                    return all;
                }
            }
        }
        all
    }

    /// Returns the executable, which is asked what it can unless it was asked before.
    fn describe(&self, path: &Path, job: &JobContext<'_>) -> Result<Arc<Executable>, Failure> {
        let refused =
            |why: String| Failure::Execution(format!("{} is not used: {why}", path.display()));
        let version = trusted(path).map_err(|error| refused(error.to_string()))?;
        let known = self.lock().get(path).cloned();
        if let Some(known) = known.filter(|known| known.file.version == version) {
            return Ok(known);
        }
        let command = Command {
            argv: vec![path.display().to_string(), "--describe".to_owned()],
            folder: Some(PathBuf::from("/")),
            timeout: Some(DESCRIBE_TIMEOUT),
            ..Command::default()
        };
        let done = job.run(&command)?;
        if done.timed_out {
            let seconds = DESCRIBE_TIMEOUT.as_secs();
            return Err(refused(format!(
                "--describe took longer than {seconds} seconds"
            )));
        }
        if done.retcode != 0 {
            let said = call::excerpt(&done.stderr.into_bytes().unwrap_or_default());
            let retcode = done.retcode;
            return Err(refused(format!(
                "--describe ended with retcode {retcode}: {said}"
            )));
        }
        let printed = done.stdout.into_bytes().map_err(refused)?;
        let file = DescribedFile {
            path: path.to_owned(),
            version,
            printed,
        };
        self.remember(file)
            .map_err(|error| refused(format!("what --describe prints is not understood: {error}")))
    }

    /// Returns the executable of `fun` as it described itself, if it did, so that another process need not ask it.
    pub(crate) fn described(&self, fun: &str) -> Option<DescribedFile> {
        let (module, _) = fun.split_once('.')?;
        let known = self.lock().get(&self.path(module)?).cloned();
        Some(known?.file.clone())
    }

    /// Takes over how an executable described itself, here or in another process. A description of an older version of the
    /// file is never used.
    ///
    /// # Errors
    /// When it is none.
    fn remember(&self, file: DescribedFile) -> Result<Arc<Executable>, String> {
        let (version, functions) = Description::decode(&file.printed)?.into_parts();
        let path = file.path.clone();
        let executable = Arc::new(Executable {
            file,
            version,
            functions,
        });
        self.lock().insert(path, Arc::clone(&executable));
        Ok(executable)
    }

    /// Takes over what another process has learnt of an executable.
    pub(crate) fn learn(&self, file: DescribedFile) {
        // The other process has understood it.
        let _ = self.remember(file);
    }

    /// Forgets what executables described: each is asked again when its functions are next called or listed.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Arc<Executable>>> {
        self.described
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file of this name is a module: a letter, then letters, digits and underscores, all small.
fn is_module_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 64
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Returns the version of an executable that nobody can change but root and the minion's user.
///
/// # Errors
/// When the file is no such executable. Says what to do.
pub(crate) fn trusted(path: &Path) -> io::Result<FileVersion> {
    let path = fs::canonicalize(path)?;
    let found = fs::metadata(&path)?;
    if found.mode() & 0o111 == 0 {
        return Err(io::Error::other("it is not executable: chmod +x it"));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    for (place, found) in [(&*path, &found), (folder, &fs::metadata(folder)?)] {
        let others = match changeable(found) {
            None if found.mode() & 0o020 == 0 || found.gid() == 0 => continue,
            None => format!("its group can write to it: chmod g-w {}", place.display()),
            Some(Changeable::ByAll(mode)) => {
                format!(
                    "everybody can write to {} (mode {mode:o}): chmod go-w it",
                    place.display()
                )
            }
            Some(Changeable::ByOwner(owner)) => {
                format!(
                    "{} belongs to user {owner}: chown it to root",
                    place.display()
                )
            }
        };
        return Err(io::Error::other(others));
    }
    Ok(FileVersion {
        file: (found.dev(), found.ino()),
        size: found.size(),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}
