//! The environments that are served, and who may read them, by the present settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use saline_config::{Environments, FileOptions, MasterConfig, Paths};
use saline_jailed_files::{InnerPath, PathError};
use saline_messages::{FileRefusal, MAX_ENVIRONMENT, MinionId};
use saline_targeting::{Candidate, CompiledTarget, Glob, Inclusion, TextPattern};

/// The environments, who may read them, and which files are left out.
#[derive(Debug, Default)]
pub(crate) struct ServedFiles {
    environments: BTreeMap<String, Environment>,
    ignore_regex: Vec<TextPattern>,
    ignore_glob: Vec<Glob>,
    /// Whether minions may hand files in.
    pub(crate) receive: bool,
    /// The largest file that they may hand in, in bytes.
    pub(crate) receive_max: u64,
}

#[derive(Debug)]
struct Environment {
    roots: Vec<PathBuf>,
    readers: Readers,
}

/// The minions that may read an environment.
#[derive(Debug)]
enum Readers {
    Everybody,
    /// Those that the rule includes. It looks at ids alone: what is assigned was put in as globs of ids.
    Included(CompiledTarget),
    /// The rule cannot be read.
    Nobody,
}

impl ServedFiles {
    /// Reads the options. A rule that cannot be read lets nobody in, and the log says why.
    pub(crate) fn of(config: &MasterConfig) -> Self {
        let files: &FileOptions = &config.files;
        for why in Self::not_served(config) {
            tracing::error!("{why}");
        }
        let environments = served_folders(config).into_iter().map(|(name, roots)| {
            let readers = match files.rule(&name, &config.assignments) {
                Ok(None) => Readers::Everybody,
                Ok(Some(rule)) => Readers::Included(rule),
                Err(error) => {
                    tracing::error!(
                        "nobody may read the environment {name}: file_env_access has a rule for it that cannot be read: {error}"
                    );
                    Readers::Nobody
                }
            };
            (name, Environment { roots, readers })
        });
        // The loader has compiled both.
        let anywhere =
            |text: &String| TextPattern::regex(&format!(r"[\s\S]*(?:{text})[\s\S]*")).ok();
        Self {
            environments: environments.collect(),
            ignore_regex: files.ignore_regex.iter().filter_map(anywhere).collect(),
            ignore_glob: files
                .ignore_glob
                .iter()
                .filter_map(|text| Glob::compile(text).ok())
                .collect(),
            receive: files.receive,
            receive_max: files.receive_max,
        }
    }

    /// Returns why folders of `file_roots` are not served: every minion could read the master's keys there.
    pub(crate) fn not_served(config: &MasterConfig) -> Vec<String> {
        let environments = config.files.environments(&config.paths.root_dir);
        let roots = environments.values().flatten();
        let not_served = roots.filter_map(|root| {
            let own = own_folder_below(root, &config.paths)?;
            Some(format!(
                "the folder {} of file_roots is not served: it holds {}, with what the master keeps for itself; move the files to \
                 a folder of their own",
                root.display(),
                own.display()
            ))
        });
        not_served.collect()
    }

    /// Returns the names of all environments.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.environments.keys().map(String::as_str)
    }

    /// Returns the names of the environments that a minion may read.
    pub(crate) fn readable_by(&self, id: &MinionId) -> impl Iterator<Item = &str> {
        let readable = self
            .environments
            .iter()
            .filter(move |(_, environment)| environment.is_for(id));
        readable.map(|(name, _)| name.as_str())
    }

    /// Whether a rule of `file_env_access` keeps an environment from a minion.
    pub(crate) fn is_kept_from(&self, id: &MinionId, environment: &str) -> bool {
        let found = self.environments.get(environment);
        found.is_some_and(|environment| !environment.is_for(id))
    }

    /// Returns the roots of an environment; none if there is no such.
    pub(crate) fn roots(&self, environment: &str) -> Option<&[PathBuf]> {
        let environment = self.environments.get(environment)?;
        Some(&environment.roots)
    }

    /// Returns the roots of an environment that a minion may read.
    ///
    /// # Errors
    /// `NoEnvironment` when there is none, or the minion may not read it.
    pub(crate) fn roots_for(
        &self,
        id: &MinionId,
        environment: &str,
    ) -> Result<&[PathBuf], FileRefusal> {
        if environment.len() > MAX_ENVIRONMENT {
            return Err(FileRefusal::NoEnvironment);
        }
        let found = self.environments.get(environment);
        let readable = found.filter(|environment| environment.is_for(id));
        readable
            .map(|environment| environment.roots.as_slice())
            .ok_or(FileRefusal::NoEnvironment)
    }

    /// Reads the path of a file that may be served.
    ///
    /// # Errors
    /// `BadPath`, or `NoFile` for one that is left out.
    pub(crate) fn path(&self, text: &str) -> Result<InnerPath, FileRefusal> {
        let path = inner_path(text)?;
        match self.is_ignored(path.as_str()) {
            true => Err(FileRefusal::NoFile),
            false => Ok(path),
        }
    }

    /// Whether `file_ignore_regex` or `file_ignore_glob` leaves a path out.
    pub(crate) fn is_ignored(&self, path: &str) -> bool {
        // With the slash of the root too, so that `/\.git($|/)` and `*/.git/*` are also about `.git` in the root.
        let rooted = format!("/{path}");
        [path, rooted.as_str()].into_iter().any(|path| {
            // One that takes too many steps may be one that is to be left out.
            let mut regex = self.ignore_regex.iter();
            regex.any(|pattern| pattern.matches(path).unwrap_or(true))
                || self.ignore_glob.iter().any(|glob| glob.matches(path))
        })
    }
}

impl Environment {
    fn is_for(&self, id: &MinionId) -> bool {
        match &self.readers {
            Readers::Everybody => true,
            Readers::Included(rule) => {
                let minion = Candidate {
                    id: id.as_str(),
                    grains: None,
                    pillar: None,
                };
                matches!(rule.decide(minion), Ok(Inclusion::Included))
            }
            Readers::Nobody => false,
        }
    }
}

/// Returns the folders of `file_roots` that are served.
pub(super) fn served_folders(config: &MasterConfig) -> Environments {
    let mut environments = config.files.environments(&config.paths.root_dir);
    for roots in environments.values_mut() {
        roots.retain(|root| own_folder_below(root, &config.paths).is_none());
    }
    environments
}

/// Returns the folder of the master alone that a root is, or that lies below it, if there is one.
fn own_folder_below<'a>(root: &Path, paths: &'a Paths) -> Option<&'a Path> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let root = real(root);
    let mut folders = paths.folders().into_iter();
    folders.find(|own| real(own).starts_with(&root))
}

/// Reads a path of a minion.
pub(crate) fn inner_path(text: &str) -> Result<InnerPath, FileRefusal> {
    InnerPath::parse(text).map_err(|error: PathError| {
        tracing::debug!("a path is refused: {error}");
        FileRefusal::BadPath
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_holds_what_is_the_masters_own_is_not_served() {
        let paths = Paths::master();
        for (root, own) in [
            ("/srv/saline", None),
            ("/", Some("/etc/saline/pki/master")),
            ("/etc", Some("/etc/saline/pki/master")),
            ("/etc/saline/pki/master", Some("/etc/saline/pki/master")),
            ("/var/lib", Some("/var/lib/saline/master")),
            ("/var/cache/saline/master/minions", None),
        ] {
            let found = own_folder_below(Path::new(root), &paths);
            assert_eq!(found, own.map(Path::new), "{root}");
        }
    }
}
