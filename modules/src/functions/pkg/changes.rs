//! What a function did to the packages of a machine.

use std::collections::BTreeMap;

use saline_data::Value;

use super::dpkg::Listing;

/// The packages that changed, each with the versions before and after; an empty version means that it was not installed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changes(BTreeMap<String, (String, String)>);

impl Changes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn add(&mut self, name: &str, old: &str, new: &str) {
        self.0
            .insert(name.to_owned(), (old.to_owned(), new.to_owned()));
    }

    /// Adds packages that were installed again in the same version, unless they have changed.
    pub(super) fn add_unchanged<'a>(&mut self, packages: impl Iterator<Item = (&'a str, &'a str)>) {
        for (name, version) in packages {
            let same = || (version.to_owned(), version.to_owned());
            self.0.entry(name.to_owned()).or_insert_with(same);
        }
    }

    /// Returns the names of the packages.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns a mapping of the installed packages to their new versions.
    pub(super) fn upgrades(&self) -> Value {
        let all = self.0.iter();
        let upgrades = all.filter(|(_, (old, new))| !old.is_empty() && !new.is_empty());
        Value::map(upgrades.map(|(name, (_, new))| (name.as_str(), Value::from(new.as_str()))))
    }
}

impl From<&Changes> for Value {
    fn from(changes: &Changes) -> Self {
        let shown = |(old, new): &(String, String)| {
            Self::map([
                ("new", Self::from(new.as_str())),
                ("old", Self::from(old.as_str())),
            ])
        };
        Self::map(
            changes
                .0
                .iter()
                .map(|(name, versions)| (name.as_str(), shown(versions))),
        )
    }
}

impl From<Changes> for Value {
    fn from(changes: Changes) -> Self {
        Self::from(&changes)
    }
}

/// Returns what changed between two listings. With `configuration`, a package whose configuration files alone were left,
/// and are gone now, is one that was removed.
pub(super) fn between(before: &Listing, after: &Listing, configuration: bool) -> Changes {
    let mut changes = Changes::new();
    for (name, old) in before.packages(true) {
        let new = after.version(&name).unwrap_or_default();
        if new != old {
            changes.add(name, old, new);
        }
    }
    for (name, new) in after.packages(true) {
        if !before.is_installed(&name) {
            changes.add(name, "", new);
        }
    }
    if configuration {
        for (name, old) in before.packages(false) {
            if !after.is_known(&name) {
                changes.add(name, old, "");
            }
        }
    }
    changes
}
