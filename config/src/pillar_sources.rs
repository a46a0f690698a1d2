//! Where the pillars of minions come from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{BASE, Environments};

/// The folder of `base` when `pillar_roots` is not set, as in Salt.
const DEFAULT_ROOT: &str = "/srv/pillar";

/// What Salt's `pillar_source_merging_strategy` may be here.
pub const MERGING_STRATEGIES: [&str; 4] = ["smart", "recurse", "overwrite", "none"];

/// Where the pillars of minions come from, and how they are put together.
#[derive(Debug, Clone, PartialEq)]
pub struct PillarSources {
    /// `pillar_roots`; none for the default.
    pub roots: Option<Environments>,
    /// `pillar_source_merging_strategy`: one of [`MERGING_STRATEGIES`].
    pub strategy: &'static str,
    /// `pillar_merge_lists`: whether lists are put together where mappings are merged.
    pub merge_lists: bool,
    /// `ext_pillar`, in its order.
    pub external: Vec<ExternalPillar>,
    /// `pillar_opts`: the options of the master that stand in every pillar.
    pub shown_options: ShownOptions,
}

/// The options of the master that minions see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ShownOptions {
    /// No option.
    #[default]
    Nothing,
    /// All options that are not secret.
    All,
    /// The options with these names.
    Named(BTreeSet<String>),
}

/// A source of `ext_pillar`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalPillar {
    /// A command that prints a JSON mapping. `%s` stands for the id of the minion.
    CmdJson(String),
    /// Folders of minions and of nodegroups, whose files are values.
    FileTree {
        /// The folder with `hosts/ID` and `nodegroups/NAME`.
        root: PathBuf,
        /// Whether the line break at the end of a file belongs to the value.
        keep_newline: bool,
    },
}

impl Default for PillarSources {
    fn default() -> Self {
        Self {
            roots: None,
            strategy: MERGING_STRATEGIES[0],
            merge_lists: false,
            external: Vec::new(),
            shown_options: ShownOptions::default(),
        }
    }
}

impl PillarSources {
    /// Returns the environments: those of `pillar_roots`, else `base` with its default folder under `root_dir`.
    pub fn environments(&self, root_dir: &Path) -> Environments {
        match &self.roots {
            Some(roots) => roots.clone(),
            None => {
                let folder = crate::paths::place(root_dir, Path::new(DEFAULT_ROOT));
                BTreeMap::from([(BASE.to_owned(), vec![folder])])
            }
        }
    }
}
