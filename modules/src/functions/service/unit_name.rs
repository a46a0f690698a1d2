//! The names of units.

use std::fmt;

use saline_data::Value;
use saline_functions::{FromValue, Mismatch};

/// The suffixes that the names of units have.
const SUFFIXES: [&str; 11] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "slice",
    "scope",
];

/// The longest name that systemd takes, in bytes.
const LONGEST: usize = 255;

/// The full name of a unit, such as `nginx.service`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitName(String);

impl UnitName {
    /// Reads a name; without a suffix it is that of a service.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_unit = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
        let has_suffix = text
            .rsplit_once('.')
            .is_some_and(|(_, suffix)| SUFFIXES.contains(&suffix));
        let full = match has_suffix {
            true => text.to_owned(),
            false => format!("{text}.service"),
        };
        let fits = full.len() <= LONGEST && full.chars().all(is_unit);
        // journalctl takes what begins with a hyphen for an option; a unit such as `-.mount` is none that is started.
        let begins = !full.starts_with(['.', '-', '@']);
        (fits && begins).then_some(Self(full))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromValue for UnitName {
    const TAKES: &'static str = "the name of a unit";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let name = value.as_str().and_then(Self::parse);
        name.ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the name under which a unit is listed: that of a service has no suffix, as in Salt.
pub(super) fn listed(full: &str) -> &str {
    full.strip_suffix(".service").unwrap_or(full)
}
