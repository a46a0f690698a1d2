//! Where pillars come from, as the settings of now say.

use std::path::PathBuf;

use saline_config::{Environments, ExternalPillar, MasterConfig};
use saline_data::Value;
use saline_pillar::MergingStrategy;

use super::served_files::served_folders;

/// Where pillars come from, and how they are put together.
#[derive(Debug, Default)]
pub(crate) struct PillarSettings {
    pub(crate) environments: Environments,
    /// Whether the configuration names them; otherwise there is `base` with its default folder.
    pub(crate) is_named: bool,
    pub(crate) strategy: MergingStrategy,
    pub(crate) merge_lists: bool,
    pub(crate) external: Vec<ExternalPillar>,
    /// The options of the master that stand in every pillar; none if there are none.
    pub(crate) shown_options: Option<Value>,
}

impl PillarSettings {
    /// Reads the options. The log warns of a root whose files every minion may read.
    pub(crate) fn of(config: &MasterConfig) -> Self {
        for warning in Self::readable_roots(config) {
            tracing::warn!("{warning}");
        }
        Self {
            environments: config.pillar.environments(&config.paths.root_dir),
            is_named: config.pillar.roots.is_some(),
            // The loader has taken no other name.
            strategy: MergingStrategy::from_name(config.pillar.strategy).unwrap_or_default(),
            merge_lists: config.pillar.merge_lists,
            external: config.pillar.external.clone(),
            shown_options: config.options_for_pillars(),
        }
    }

    /// Returns a warning for each root whose files every minion may read.
    pub(crate) fn readable_roots(config: &MasterConfig) -> Vec<String> {
        let environments = config.pillar.environments(&config.paths.root_dir);
        let served = served_folders(config);
        let warnings = readable(&environments, &served).into_iter();
        let warnings = warnings.map(|(folder, served)| {
            format!(
                "minions may read all pillars: the folder {} of pillar_roots and the folder {} of file_roots are one, or one \
                 lies below the other; move the pillars elsewhere",
                folder.display(),
                served.display()
            )
        });
        warnings.collect()
    }

    /// Whether there is an environment with this name.
    pub(crate) fn has_environment(&self, name: &str) -> bool {
        self.environments.contains_key(name)
    }

    /// Returns the names of the environments, for an error about another one.
    pub(crate) fn environment_names(&self) -> String {
        let known: Vec<&str> = self.environments.keys().map(String::as_str).collect();
        known.join(", ")
    }
}

/// Returns the folders of pillars that are folders of files too, or lie below one, or have one below them.
fn readable<'a>(
    pillars: &'a Environments,
    files: &'a Environments,
) -> Vec<(&'a PathBuf, &'a PathBuf)> {
    let of_files = || files.values().flatten();
    let pairs = pillars.values().flatten().flat_map(|folder| {
        of_files()
            .filter(move |served| {
                let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
                let (own, served) = (real(folder), real(served));
                own.starts_with(&served) || served.starts_with(&own)
            })
            .map(move |served| (folder, served))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_config::Paths;

    #[test]
    fn a_root_that_minions_may_read_is_found() {
        let of = |paths: &[&str]| {
            let paths = paths.iter().map(PathBuf::from).collect();
            Environments::from([("base".to_owned(), paths)])
        };
        let files = of(&["/srv/salt", "/srv/x/files"]);
        for (pillar, is_readable) in [
            ("/srv/pillar", false),
            ("/srv/salt", true),
            ("/srv/salt/pillar", true),
            ("/srv/x", true),
            ("/srv/saltpillar", false),
        ] {
            let found = !readable(&of(&[pillar]), &files).is_empty();
            assert_eq!(found, is_readable, "{pillar}");
        }
    }

    #[test]
    fn a_folder_that_is_not_served_shows_no_pillars() {
        let warnings = |files: &str| {
            let mut config = MasterConfig::default();
            config.paths = Paths::master();
            let roots = vec![PathBuf::from(files)];
            config.files.roots = Some([("base".to_owned(), roots)].into());
            PillarSettings::readable_roots(&config)
        };
        let shown = warnings("/srv");
        assert_eq!(shown.len(), 1, "{shown:?}");
        assert!(shown[0].starts_with("minions may read all pillars: the folder /srv/pillar"));
        // It holds the master's keys.
        assert_eq!(warnings("/"), [""; 0]);
    }
}
