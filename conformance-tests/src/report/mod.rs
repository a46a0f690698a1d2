//! What came of the suite on one backend, for people and for tools.
//!
//! Every whole run writes to `target/conformance`: `<backend>.json`, whose form is
//! `schema/report.schema.json`; the same as Markdown, as JUnit and as a badge; and `badge.json`, the
//! badge of the run that was last.

mod badge;
mod entry;
mod files;
mod junit;
mod markdown;
pub(crate) mod parts;
mod table;

use std::io;
use std::path::Path;
use std::time::Duration;

use saline_protocol::transport::{Capabilities, DropAccounting};
use serde::{Deserialize, Serialize};

use crate::{Backend, kit};

pub use entry::{Entry, Mark};
pub use files::folder;
pub use table::{side_by_side, summary};

/// What came of the whole suite on one backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The backend's name.
    pub backend: String,
    /// The version of the suite.
    pub version: String,
    /// What the faults were drawn from; `SALINE_CONFORMANCE_SEED` repeats them.
    pub seed: u32,
    /// What the run took. Where each requirement had a process of its own, the sum of them.
    pub seconds: f64,
    /// What the backend declares.
    pub capabilities: Declared,
    /// Every requirement, in the order of their ids.
    pub requirements: Vec<Entry>,
}

/// The capabilities of a backend, as they stand in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// Bytes.
    pub max_message: u64,
    /// Whether paths on this machine are served.
    pub local_endpoints: bool,
    /// Whether publications have an endpoint of their own.
    pub publications_apart: bool,
    /// Whether it encrypts.
    pub encrypted: bool,
    /// `exact` or `unknown`.
    pub drop_accounting: String,
    /// Whether a broker stands between the ends.
    pub brokered: bool,
}

impl From<Capabilities> for Declared {
    fn from(declared: Capabilities) -> Self {
        let drops = match declared.drop_accounting {
            DropAccounting::Exact => "exact",
            _ => "unknown",
        };
        Self {
            max_message: u64::try_from(declared.max_message).unwrap_or(u64::MAX),
            local_endpoints: declared.local_endpoints,
            publications_apart: declared.publications_apart,
            encrypted: declared.encrypted,
            drop_accounting: drops.to_owned(),
            brokered: declared.brokered,
        }
    }
}

impl Report {
    /// The report on `backend`, in the order of the ids.
    pub fn new(backend: &dyn Backend, took: Duration, mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|a, b| a.id.cmp(&b.id));
        Self {
            backend: backend.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: kit::seed(),
            seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            capabilities: backend.transport().capabilities().into(),
            requirements: entries,
        }
    }

    /// Reads a report.
    ///
    /// # Errors
    /// When there is none at `path`, or something else.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        serde_json::from_str(&text).map_err(io::Error::other)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and booleans, none of which can fail.
        let value = serde_json::to_value(self).unwrap_or_default();
        format!("{value:#}\n")
    }

    /// How many requirements came to `mark`.
    pub fn count(&self, mark: Mark) -> usize {
        let entries = self.requirements.iter();
        entries.filter(|entry| entry.outcome == mark).count()
    }

    /// How many of them are failures.
    pub fn failures(&self) -> usize {
        self.count(Mark::Fail) + self.count(Mark::UnexpectedPass)
    }

    /// One line for the terminal.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{}: {} requirements, {} passed, {} failed, {} skipped, {} known gaps, in {} s",
            self.backend,
            self.requirements.len(),
            self.count(Mark::Pass),
            self.failures(),
            self.count(Mark::Skipped),
            self.count(Mark::KnownGap),
            self.seconds,
        )
    }
}
