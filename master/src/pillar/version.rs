//! What a pillar was compiled from, so that one that is kept is known to be the one that would be compiled now.

use std::sync::Arc;

use saline_targeting::Nodegroups;

use crate::settings::{PillarSettings, RootFacts, SettingsValues};

/// What a pillar was compiled from: the settings, and the files in one state. External sources, and the trusted grains of the
/// minion, are no part of it.
#[derive(Clone)]
pub(super) struct SourceVersion {
    settings: Arc<PillarSettings>,
    root: Arc<RootFacts>,
    nodegroups: Arc<Nodegroups>,
    /// The environments whose files were looked at, with the numbers of the states of these.
    files: Arc<[(String, u64)]>,
}

impl SourceVersion {
    pub(super) fn new(settings: &SettingsValues, files: Vec<(String, u64)>) -> Self {
        Self {
            settings: Arc::clone(&settings.pillar),
            root: Arc::clone(&settings.root_facts),
            nodegroups: Arc::clone(&settings.nodegroups),
            files: files.into(),
        }
    }

    /// Whether what is compiled from `now`, which knows all environments, is compiled from the same.
    pub(super) fn is_still(&self, now: &Self) -> bool {
        Arc::ptr_eq(&self.settings, &now.settings)
            && Arc::ptr_eq(&self.root, &now.root)
            && Arc::ptr_eq(&self.nodegroups, &now.nodegroups)
            && self.files.iter().all(|state| now.files.contains(state))
    }
}
