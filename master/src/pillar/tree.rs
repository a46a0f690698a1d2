//! The files of pillars, and what is known of them.
//!
//! Renderers keep the templates that they have compiled while the files are in one state, which has a number. A compilation
//! uses the number of a state that was compared with the disk after the pillar was asked for, so a pillar that is asked for
//! after a change has the change. Minions that ask at the same time share a comparison.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use saline_data::Value;
use saline_jailed_files::{FileVersion, InnerPath, JailedFile, OpenError, Root};
use saline_pillar::Environments;
use saline_protocol::transport::{Clock, Instant};
use saline_render::process::Renderers;
use saline_render::{File, Files, MAX_FILE, Place, RenderError, Request, Step};

use crate::settings::PillarSettings;

/// The most names of files that are known of an environment.
const MOST_KNOWN: usize = 20_000;

/// How often a file is read again that is written meanwhile.
const READ_AGAIN: usize = 3;

/// Gives the states of files their numbers. No two states have the same, also of two trees.
#[derive(Debug, Default)]
pub(super) struct StateNumbers(AtomicU64);

impl StateNumbers {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The files of all environments.
#[derive(Debug)]
pub(super) struct PillarTree {
    numbers: Arc<StateNumbers>,
    environments: BTreeMap<String, Environment>,
}

#[derive(Debug)]
struct Environment {
    roots: Vec<PathBuf>,
    known: Mutex<Known>,
}

/// What is known of the files of an environment.
#[derive(Debug)]
struct Known {
    /// The number of their state.
    state: u64,
    /// When the state was compared with the disk last.
    compared: Option<Instant>,
    /// What was seen of each file; nothing of one that is not there.
    files: HashMap<String, Option<SeenVersion>>,
    /// Whether a file was seen in two versions, so that one renderer has another than the next.
    is_mixed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenVersion {
    version: FileVersion,
    /// Whether a later change will show in the version.
    is_settled: bool,
}

impl PillarTree {
    pub(super) fn new(settings: &PillarSettings, numbers: Arc<StateNumbers>) -> Self {
        let environments = settings.environments.iter().map(|(name, roots)| {
            let known = Known {
                state: numbers.next(),
                compared: None,
                files: HashMap::new(),
                is_mixed: false,
            };
            let environment = Environment {
                roots: roots.clone(),
                known: Mutex::new(known),
            };
            (name.clone(), environment)
        });
        Self {
            environments: environments.collect(),
            numbers: Arc::clone(&numbers),
        }
    }

    /// Returns the files as they are after `asked`. What is rendered after `ends` is refused.
    pub(super) fn at<'a>(
        &'a self,
        asked: Instant,
        ends: Instant,
        renderers: &'a Renderers,
    ) -> FilesAt<'a> {
        let environments = self.environments.iter();
        FilesAt {
            tree: self,
            renderers,
            asked,
            ends,
            opened: environments
                .map(|(name, _)| (name.as_str(), OnceLock::new()))
                .collect(),
        }
    }
}

impl Environment {
    /// Opens the roots that are there.
    fn open(&self) -> Result<Vec<Root>, String> {
        let mut opened = Vec::new();
        for folder in &self.roots {
            match Root::open(folder) {
                Ok(root) => opened.push(root),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(format!(
                        "the folder {} of pillar_roots cannot be opened: {error}",
                        folder.display()
                    ));
                }
            }
        }
        Ok(opened)
    }

    /// Returns the number of the state that the files have after `asked`.
    fn state(&self, asked: Instant, roots: &[Root], numbers: &StateNumbers) -> u64 {
        let mut known = self.known();
        if known.compared.is_some_and(|compared| compared >= asked) && !known.is_mixed {
            return known.state;
        }
        let began = Clock.now();
        let is_same = !known.is_mixed
            && known.files.len() <= MOST_KNOWN
            && known.files.iter().all(|(name, seen)| {
                seen.is_none_or(|seen| seen.is_settled)
                    && matches!(find(roots, name), Ok(now) if now.as_ref().map(version) == seen.map(|seen| seen.version))
            });
        if !is_same {
            known.files.clear();
            known.is_mixed = false;
            known.state = numbers.next();
        }
        known.compared = Some(began);
        known.state
    }

    /// Notes what was seen of a file in a state.
    fn note(&self, state: u64, name: &str, seen: Option<SeenVersion>) {
        let mut known = self.known();
        if known.state != state {
            return;
        }
        let version = |seen: Option<SeenVersion>| seen.map(|seen| seen.version);
        if let Some(before) = known.files.insert(name.to_owned(), seen)
            && version(before) != version(seen)
        {
            known.is_mixed = true;
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // A change that was left half done is one of a state that has no other number.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that was found, and the root that has it.
type FoundFile<'a> = (JailedFile, &'a Root);

fn version(found: &FoundFile<'_>) -> FileVersion {
    found.0.version()
}

/// Opens a file in the first root that has it.
///
/// # Errors
/// A line for the operator.
fn find<'a>(roots: &'a [Root], name: &str) -> Result<Option<FoundFile<'a>>, String> {
    let path = InnerPath::parse(name).map_err(|error| error.to_string())?;
    for root in roots {
        match root.open_file(&path) {
            Ok(file) => return Ok(Some((file, root))),
            Err(OpenError::NotFound | OpenError::OtherKind(_)) => {}
            Err(error) => return Err(cannot_be_read(root, name, &error)),
        }
    }
    Ok(None)
}

fn cannot_be_read(root: &Root, name: &str, error: &dyn std::fmt::Display) -> String {
    format!(
        "{} cannot be read: {error}",
        root.path().join(name).display()
    )
}

/// The files after a moment, for one compilation.
pub(super) struct FilesAt<'a> {
    tree: &'a PillarTree,
    renderers: &'a Renderers,
    asked: Instant,
    ends: Instant,
    opened: BTreeMap<&'a str, OnceLock<Result<OpenedEnvironment, String>>>,
}

/// The roots of an environment, and the number of the state of its files.
struct OpenedEnvironment {
    roots: Vec<Root>,
    state: u64,
}

impl FilesAt<'_> {
    /// Returns the environments that were looked at, with the numbers of the states of their files. One that cannot be opened
    /// is not among them.
    pub(super) fn seen(&self) -> Vec<(String, u64)> {
        let opened = self.opened.iter();
        let seen = opened.filter_map(|(name, opened)| match opened.get()? {
            Ok(opened) => Some(((*name).to_owned(), opened.state)),
            Err(_) => None,
        });
        seen.collect()
    }

    /// Looks at all environments.
    pub(super) fn look_at_all(&self) {
        for name in self.tree.environments.keys() {
            // Who needs the files is told why they cannot be read.
            let _ = self.open(name);
        }
    }

    fn open(&self, environment: &str) -> Result<FilesOf<'_>, String> {
        let known = self.tree.environments.get(environment);
        let opened = self.opened.get(environment);
        let (Some(known), Some(opened)) = (known, opened) else {
            return Err(format!("pillar_roots has no environment {environment:?}"));
        };
        let opened = opened.get_or_init(|| {
            let roots = known.open()?;
            let state = known.state(self.asked, &roots, &self.tree.numbers);
            Ok(OpenedEnvironment { roots, state })
        });
        match opened {
            Ok(opened) => Ok(FilesOf { known, opened }),
            Err(error) => Err(error.clone()),
        }
    }
}

impl Environments for FilesAt<'_> {
    fn names(&self) -> Vec<String> {
        self.tree.environments.keys().cloned().collect()
    }

    fn has(&self, environment: &str, name: &str) -> Result<bool, String> {
        let files = self.open(environment)?;
        if let Some(seen) = files.known.known().files.get(name) {
            return Ok(seen.is_some());
        }
        let found = find(&files.opened.roots, name)?;
        // Read when it is rendered, which notes it.
        if found.is_none() {
            files.known.note(files.opened.state, name, None);
        }
        Ok(found.is_some())
    }

    fn render(&self, environment: &str, request: &Request) -> Result<Value, RenderError> {
        if Clock.now() > self.ends {
            let late = format!("{}: the pillar takes too long", request.name);
            return Err(RenderError::new(late));
        }
        let files = self.open(environment).map_err(RenderError::new)?;
        let state = files.opened.state;
        self.renderers.render(&files, state, request)
    }

    fn place_of(&self, environment: &str, request: &Request, part: &[Step]) -> Option<Place> {
        if Clock.now() > self.ends {
            return None;
        }
        let files = self.open(environment).ok()?;
        let state = files.opened.state;
        self.renderers.place_of(&files, state, request, part)
    }
}

/// The files of one environment, for one compilation.
struct FilesOf<'a> {
    known: &'a Environment,
    opened: &'a OpenedEnvironment,
}

impl Files for FilesOf<'_> {
    fn read(&self, name: &str) -> Result<Option<File>, String> {
        for _ in 0..READ_AGAIN {
            let began = Clock.wall();
            let Some((file, root)) = find(&self.opened.roots, name)? else {
                self.known.note(self.opened.state, name, None);
                return Ok(None);
            };
            let path = || root.path().join(name).display().to_string();
            let failed = |error: &dyn std::fmt::Display| cannot_be_read(root, name, error);
            let version = file.version();
            let size = usize::try_from(version.size).unwrap_or(usize::MAX);
            if size > MAX_FILE {
                return Err(format!("{} has more than {MAX_FILE} bytes", path()));
            }
            let mut bytes = vec![0; size];
            let read = file
                .read_at(&mut bytes, 0)
                .map_err(|error| failed(&error))?;
            if read < size || file.version_now().map_err(|error| failed(&error))? != version {
                continue;
            }
            let seen = SeenVersion {
                version,
                is_settled: version.is_settled(began),
            };
            self.known.note(self.opened.state, name, Some(seen));
            let text =
                String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8 text", path()))?;
            return Ok(Some(File { path: path(), text }));
        }
        Err(format!("{name} is written all the time"))
    }
}
