//! The packages that an operator asks for. Nothing here can be taken for an option of apt, or for a pattern.

use std::fmt;
use std::path::Path;

use saline_data::Value;
use saline_functions::{FromValue, Mismatch};

/// The name of a package, with its architecture behind a colon if it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageName(String);

impl PackageName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, architecture) = text.split_once(':').unwrap_or((text, "any"));
        let is_lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        // apt removes `name-`.
        let is_name = name.starts_with(is_lower)
            && name.len() > 1
            && !name.ends_with('-')
            && name.chars().all(|c| is_lower(c) || "+.-".contains(c));
        let is_architecture = architecture.starts_with(is_lower)
            && architecture.chars().all(|c| is_lower(c) || c == '-');
        (is_name && is_architecture).then(|| Self(text.to_owned()))
    }
}

impl FromValue for PackageName {
    const TAKES: &'static str = "the name of a package";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let name = value.as_str().and_then(Self::parse);
        name.ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

impl fmt::Display for PackageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version(String);

impl FromValue for Version {
    const TAKES: &'static str =
        "a version of a package; one that looks like a number needs quotes, as in \"'1.10'\"";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        // As a number, 1.10 is 1.1, which is another version.
        if matches!(value, Value::Float(_)) {
            return Err(Mismatch::of::<Self>(&value));
        }
        let text = String::from_value(value.clone()).map_err(|_| Mismatch::of::<Self>(&value))?;
        let is_version = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".+-~:".contains(c));
        match is_version {
            true => Ok(Self(text)),
            false => Err(Mismatch::of::<Self>(&value)),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Packages, each with the version that it shall have, if one was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Packages(Vec<(PackageName, Option<Version>)>);

impl Packages {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names.
    pub(super) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(name, _)| name.to_string())
    }

    /// Returns the name if there is one package, whose version was not given.
    pub(super) fn only(&self) -> Option<&PackageName> {
        match &*self.0 {
            [(name, None)] => Some(name),
            _ => None,
        }
    }

    /// Whether a package has a version.
    pub(super) fn have_versions(&self) -> bool {
        self.0.iter().any(|(_, version)| version.is_some())
    }

    /// Returns the arguments of apt-get that name the packages.
    pub(super) fn targets(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(name, version)| match version {
            None => name.to_string(),
            Some(version) => format!("{name}={version}"),
        })
    }
}

impl<'a> FromIterator<&'a Packages> for Packages {
    fn from_iter<T: IntoIterator<Item = &'a Packages>>(lists: T) -> Self {
        Self(lists.into_iter().flat_map(|list| list.0.clone()).collect())
    }
}

impl FromValue for Packages {
    const TAKES: &'static str =
        "names of packages with commas between them, or a list of names and of {name: version}";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let mut packages = Vec::new();
        let elements = match &value {
            Value::Text(names) => names
                .split(',')
                .map(|name| Value::from(name.trim()))
                .collect(),
            Value::List(elements) => elements.clone(),
            Value::Map(_) => vec![value.clone()],
            other => return Err(Mismatch::of::<Self>(other)),
        };
        for element in elements {
            match element {
                Value::Map(entries) => {
                    for (name, version) in entries {
                        let name = PackageName::from_value(Value::from(name))?;
                        packages.push((name, Option::from_value(version)?));
                    }
                }
                name => packages.push((PackageName::from_value(name)?, None)),
            }
        }
        Ok(Self(packages))
    }
}

/// The name of a release of a distribution.
#[derive(Debug)]
pub(super) struct Release(String);

impl FromValue for Release {
    const TAKES: &'static str = "the name of a release";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let is_release = |text: &&str| {
            text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
        };
        match value.as_str().filter(is_release) {
            Some(text) => Ok(Self(text.to_owned())),
            None => Err(Mismatch::of::<Self>(&value)),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Absolute paths of packages.
#[derive(Debug)]
pub(super) struct Files(Vec<String>);

impl Files {
    pub(super) fn paths(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().cloned()
    }
}

impl FromValue for Files {
    const TAKES: &'static str = "a list of absolute paths of .deb files, or of {name: path}";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let wrong = || Mismatch::of::<Self>(&value);
        let Value::List(elements) = &value else {
            return Err(wrong());
        };
        let mut paths = Vec::new();
        for element in elements {
            match element {
                Value::Map(entries) => paths.extend(entries.iter().map(|(_, path)| path)),
                path => paths.push(path),
            }
        }
        let is_package = |path: &&str| path.ends_with(".deb") && Path::new(path).is_absolute();
        let paths = paths.into_iter().map(|path| {
            let path = path.as_str().filter(is_package);
            path.map(str::to_owned).ok_or_else(wrong)
        });
        paths.collect::<Result<_, _>>().map(Self)
    }
}
