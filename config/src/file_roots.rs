//! The folders whose files a master serves, and who may read them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use saline_targeting::{Assignments, CompiledTarget, Nodegroups, Target, TargetError, TargetKind};

/// The environment that Salt names when nobody names another.
pub const BASE: &str = "base";

/// The folder of `base` when `file_roots` is not set.
const DEFAULT_ROOT: &str = "/srv/saline";

/// Salt's folder of `base`, which is served too when `file_roots` is not set and it exists.
const SALTS_ROOT: &str = "/srv/salt";

/// The names of environments with their folders, of which the first that has a file serves it.
pub type Environments = BTreeMap<String, Vec<PathBuf>>;

/// What a master serves to minions, and what it takes from them.
#[derive(Debug, Clone, PartialEq)]
pub struct FileOptions {
    /// `file_roots`; none for the default.
    pub roots: Option<Environments>,
    /// `file_env_access`: the minions that may read an environment. One that is not named is everybody's.
    pub access: BTreeMap<String, Target>,
    /// `file_ignore_regex`: files whose paths match are not served.
    pub ignore_regex: Vec<String>,
    /// `file_ignore_glob`: the same with globs.
    pub ignore_glob: Vec<String>,
    /// `file_recv`: whether minions may hand files in.
    pub receive: bool,
    /// `file_recv_max_size`: the largest file that is taken, in bytes. 100 MiB
    pub receive_max: u64,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            roots: None,
            access: BTreeMap::new(),
            ignore_regex: Vec::new(),
            ignore_glob: Vec::new(),
            receive: false,
            receive_max: 100 * 1024 * 1024,
        }
    }
}

impl FileOptions {
    /// Returns the environments: those of `file_roots`, else `base` with its default folders under `root_dir`. Looks
    /// whether Salt's folder exists.
    pub fn environments(&self, root_dir: &Path) -> Environments {
        if let Some(roots) = &self.roots {
            return roots.clone();
        }
        let mut folders = vec![crate::paths::place(root_dir, Path::new(DEFAULT_ROOT))];
        let salts = crate::paths::place(root_dir, Path::new(SALTS_ROOT));
        if salts.is_dir() {
            folders.push(salts);
        }
        BTreeMap::from([(BASE.to_owned(), folders)])
    }

    /// Returns the rule for an environment, compiled; none when everybody may read it.
    ///
    /// # Errors
    /// When the rule is malformed, or looks at more than ids and what is assigned: the loader refuses such a rule.
    pub fn rule(
        &self,
        environment: &str,
        assignments: &Assignments,
    ) -> Result<Option<CompiledTarget>, TargetError> {
        let Some(target) = self.access.get(environment) else {
            return Ok(None);
        };
        let expanded = target.clone().expand(&Nodegroups::default(), assignments)?;
        expanded.target.compile().map(Some)
    }
}

/// Reads a rule of `file_env_access`: a compound expression over ids, roles and attributes.
pub(crate) fn access_rule(text: &str) -> Result<Target, String> {
    let target = Target {
        kind: TargetKind::Compound,
        expression: text.to_owned(),
    };
    let compiled = target
        .clone()
        .expand(&Nodegroups::default(), &Assignments::default())
        .and_then(|expanded| expanded.target.compile())
        .map_err(|error| format!("has the rule {text:?}: {error}").replace('\n', " "))?;
    if compiled.needs_pillar() {
        return Err(format!(
            "has the rule {text:?}, which looks at pillars: use ids, and roles and attributes of minions.d (A@roles:web)"
        ));
    }
    match compiled.looks_only_at(&std::collections::BTreeSet::new()) {
        true => Ok(target),
        false => Err(format!(
            "has the rule {text:?}, which looks at grains or addresses: a minion says of itself what these are, so use ids, \
             and roles and attributes of minions.d (A@roles:web)"
        )),
    }
}

/// Checks the name of an environment, which is a folder of the minions' caches.
pub(crate) fn environment_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name == "__env__" {
        return Err(
            "has the environment `__env__`, which Saline does not have: name each environment"
                .to_owned(),
        );
    }
    if name == saline_messages::UPLOADS_ENVIRONMENT {
        return Err(format!(
            "has the environment `{name}`, under which minions fetch what saline-cp sends: choose another name"
        ));
    }
    match !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('.')
        && name.chars().all(is_allowed)
    {
        true => Ok(()),
        false => Err(format!(
            "has the environment {name:?}: a name has letters, digits, `_`, `-` and `.`, and does not begin with a dot"
        )),
    }
}
