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

use super::seen_tops::SeenTops;
use super::sls_names::sls_names;
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
    seen_tops: Arc<SeenTops>,
    environments: BTreeMap<String, Environment>,
}

#[derive(Debug)]
struct Environment {
    roots: Vec<PathBuf>,
    /// Whether the configuration names the roots, which have to be there then.
    is_named: bool,
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
    /// The names of all files; none while no glob has looked at them.
    names: Option<Vec<String>>,
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
    /// Returns the files of these settings. `seen_tops` are the top files that were there before.
    pub(super) fn new(
        settings: &PillarSettings,
        numbers: Arc<StateNumbers>,
        seen_tops: Arc<SeenTops>,
    ) -> Self {
        let environments = settings.environments.iter().map(|(name, roots)| {
            let known = Known {
                state: numbers.next(),
                compared: None,
                files: HashMap::new(),
                names: None,
                is_mixed: false,
            };
            let environment = Environment {
                roots: roots.clone(),
                is_named: settings.is_named,
                known: Mutex::new(known),
            };
            (name.clone(), environment)
        });
        Self {
            environments: environments.collect(),
            seen_tops,
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

    /// Returns the folders of environments, for an operator.
    fn folders(&self, environments: &[&str]) -> String {
        let known = environments
            .iter()
            .filter_map(|name| self.environments.get(*name));
        let folders = known.flat_map(|environment| &environment.roots);
        let folders: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
        folders.join(", ")
    }
}

impl Environment {
    /// Opens the roots. The default one may be absent.
    fn open(&self) -> Result<Vec<Root>, String> {
        let mut opened = Vec::new();
        for folder in &self.roots {
            match Root::open(folder) {
                Ok(root) => opened.push(root),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    if self.is_named {
                        return Err(format!(
                            "the folder {} of pillar_roots is not there: mount or make it, or take it out of pillar_roots",
                            folder.display()
                        ));
                    }
                }
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
            })
            && known.names.as_ref().is_none_or(|names| sls_names(roots).as_ref() == Ok(names));
        if !is_same {
            known.files.clear();
            known.names = None;
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

    fn has_top(&self, environment: &str) -> Result<bool, String> {
        let has = self.has(environment, "top.sls")?;
        let seen = &self.tree.seen_tops;
        if has {
            seen.note(environment);
        } else if seen.had(environment) {
            return Err(format!(
                "the top.sls of the environment {environment} has gone from {}: put it back, or an empty one if nothing is to \
                 come from there any more",
                self.tree.folders(&[environment])
            ));
        }
        Ok(has)
    }

    fn without_top(&self, environments: &[&str]) -> Option<String> {
        let folders = self.tree.folders(environments);
        let is_wanted = |environment: &&str| {
            let known = self.tree.environments.get(*environment);
            let names = || self.sls_names(environment);
            known.is_some_and(|known| known.is_named)
                || names().is_ok_and(|names| !names.is_empty())
        };
        let lacks = !folders.is_empty() && environments.iter().any(is_wanted);
        lacks.then(|| {
            format!("there is no top.sls in {folders}, so that no file is for any minion: write one, or an empty one if that is meant")
        })
    }

    fn sls_names(&self, environment: &str) -> Result<Vec<String>, String> {
        let files = self.open(environment)?;
        let state = files.opened.state;
        let mut known = files.known.known();
        if known.state == state
            && let Some(names) = &known.names
        {
            return Ok(names.clone());
        }
        let names = sls_names(&files.opened.roots)?;
        if known.state == state {
            known.names = Some(names.clone());
        }
        Ok(names)
    }

    fn path_of(&self, environment: &str, name: &str) -> Option<String> {
        let files = self.open(environment).ok()?;
        let (_, root) = find(&files.opened.roots, name).ok()??;
        Some(root.path().join(name).display().to_string())
    }

    fn text_of(&self, environment: &str, name: &str) -> Option<String> {
        if Clock.now() > self.ends {
            return None;
        }
        let file = self.open(environment).ok()?.read(name).ok()??;
        Some(file.text)
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
