//! One requirement's line in a report.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Requirement, Verdict};

/// What came of one requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// Kept.
    #[serde(rename = "pass")]
    Pass,
    /// Not kept.
    #[serde(rename = "fail")]
    Fail,
    /// Not applicable.
    #[serde(rename = "skipped")]
    Skipped,
    /// Not kept, as declared.
    #[serde(rename = "known gap")]
    KnownGap,
    /// Kept although declared a gap, which is a failure.
    #[serde(rename = "unexpected pass")]
    UnexpectedPass,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skipped => "skipped",
            Self::KnownGap => "known gap",
            Self::UnexpectedPass => "unexpected pass",
        })
    }
}

/// One requirement's line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The requirement's id.
    pub id: String,
    /// `MUST`, `SHOULD` or `MAY`.
    pub level: String,
    /// What came of it.
    pub outcome: Mark,
    /// Why, where it is not a pass.
    pub reason: String,
    /// Milliseconds.
    pub ms: u64,
}

impl Entry {
    /// The line of `requirement`.
    pub fn new(requirement: &Requirement, verdict: &Verdict, took: Duration) -> Self {
        let (outcome, reason) = match verdict {
            Verdict::Pass => (Mark::Pass, ""),
            Verdict::Fail(text) => (Mark::Fail, text.as_str()),
            Verdict::Skipped(reason) => (Mark::Skipped, *reason),
            Verdict::KnownGap(reason, _) => (Mark::KnownGap, *reason),
            Verdict::UnexpectedPass(reason) => (Mark::UnexpectedPass, *reason),
        };
        Self {
            id: requirement.id.to_owned(),
            level: requirement.level.to_string(),
            outcome,
            reason: reason.to_owned(),
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
