//! The report as a page.

use std::fmt::Write;

use super::{Mark, Report};

impl Report {
    /// The report as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut page = format!("# Conformance of `{}`\n\n", self.backend);
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "{} requirements: {} passed, {} failed, {} skipped, {} known gaps. Suite {}, seed {}, {} s.\n",
            self.requirements.len(),
            self.count(Mark::Pass),
            self.failures(),
            self.count(Mark::Skipped),
            self.count(Mark::KnownGap),
            self.version,
            self.seed,
            self.seconds,
        );
        page.push_str("| requirement | level | outcome | ms | reason |\n|---|---|---|---:|---|\n");
        for entry in &self.requirements {
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {} |",
                entry.id,
                entry.level,
                entry.outcome,
                entry.ms,
                cell(&entry.reason),
            );
        }
        page
    }
}

/// `text` as the cell of a table.
pub(super) fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|").replace('<', "&lt;")
}
