//! The packages that dpkg knows.

use std::collections::BTreeMap;
use std::fmt::Display;

/// The format that dpkg-query is asked for: a package in each line, whose fields have tabs between them.
pub(super) const FORMAT: &str =
    "${Package}\t${Architecture}\t${Version}\t${db:Status-Want}\t${db:Status-Status}\n";

/// A package that dpkg knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    /// The version.
    pub version: String,
    /// Whether the package is installed; otherwise its configuration files alone are left.
    pub installed: bool,
    /// Whether the package is on hold.
    pub held: bool,
}

/// The packages that dpkg knows, by their names. One of another architecture than that of dpkg has it behind a colon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listing {
    packages: BTreeMap<String, Package>,
    architecture: String,
}

/// A line of dpkg-query that has not the format that it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("dpkg-query wrote a line of another form than {}: {:?}", FORMAT.escape_debug(), .0)]
pub(super) struct UnknownLine(pub String);

impl Listing {
    /// Reads what dpkg-query printed.
    ///
    /// # Errors
    /// When a line has not the format.
    pub(super) fn parse(text: &str) -> Result<Self, UnknownLine> {
        let mut lines = Vec::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let Ok(fields) = <[&str; 5]>::try_from(fields) else {
                return Err(UnknownLine(line.chars().take(200).collect()));
            };
            lines.push(fields);
        }
        // dpkg itself is of the architecture of the machine.
        let own = lines.iter().find(|[name, ..]| *name == "dpkg");
        let architecture = own.map_or("", |[_, architecture, ..]| architecture);
        let mut packages = BTreeMap::new();
        for [name, of, version, want, status] in &lines {
            // Of a package that is unpacked, but not configured, dpkg has the files: it is on the machine.
            if *status == "not-installed" {
                continue;
            }
            let name = match *of == "all" || *of == architecture {
                true => (*name).to_owned(),
                false => format!("{name}:{of}"),
            };
            let package = Package {
                version: (*version).to_owned(),
                installed: *status != "config-files",
                held: *want == "hold",
            };
            packages.insert(name, package);
        }
        Ok(Self {
            packages,
            architecture: architecture.to_owned(),
        })
    }

    fn get(&self, name: &impl Display) -> Option<(&str, &Package)> {
        let name = name.to_string();
        let name = match name.split_once(':') {
            Some((plain, architecture)) if architecture == self.architecture => plain,
            _ => &name,
        };
        let found = self.packages.get_key_value(name);
        found.map(|(name, package)| (name.as_str(), package))
    }

    fn installed(&self, name: &impl Display) -> Option<(&str, &Package)> {
        self.get(name).filter(|(_, package)| package.installed)
    }

    /// Returns the version in which a package is installed.
    pub(super) fn version(&self, name: &impl Display) -> Option<&str> {
        self.entry(name).map(|(_, version)| version)
    }

    /// Returns the name here and the version of an installed package.
    pub(super) fn entry(&self, name: &impl Display) -> Option<(&str, &str)> {
        let found = self.installed(name);
        found.map(|(name, package)| (name, package.version.as_str()))
    }

    /// Returns the version of a package that is installed, or whose configuration files are left.
    pub(super) fn known_version(&self, name: &impl Display) -> Option<&str> {
        self.get(name).map(|(_, package)| package.version.as_str())
    }

    pub(super) fn is_installed(&self, name: &impl Display) -> bool {
        self.installed(name).is_some()
    }

    /// Whether a package is installed, or its configuration files are left.
    pub(super) fn is_known(&self, name: &impl Display) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn is_held(&self, name: &impl Display) -> bool {
        self.installed(name)
            .is_some_and(|(_, package)| package.held)
    }

    /// Returns the names of the installed packages on hold.
    pub(super) fn held(&self) -> impl Iterator<Item = &str> {
        let packages = self.packages.iter();
        let held = packages.filter(|(_, package)| package.installed && package.held);
        held.map(|(name, _)| name.as_str())
    }

    /// Returns the names and versions of the packages that are installed, or of those whose configuration files alone are
    /// left.
    pub(super) fn packages(&self, installed: bool) -> impl Iterator<Item = (&str, &str)> {
        let packages = self.packages.iter();
        let wanted = packages.filter(move |(_, package)| package.installed == installed);
        wanted.map(|(name, package)| (name.as_str(), package.version.as_str()))
    }
}
