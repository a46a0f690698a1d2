//! Several backends' reports, side by side.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Mark, Report, markdown::cell};
use crate::requirements;

/// One table of all `reports`: a row for each requirement, a column for each backend, and in each
/// cell what came of it. What took how long is left out, so that the page changes only when an
/// outcome does.
pub fn side_by_side(reports: &[Report]) -> String {
    let mut page = String::from(
        "# The backends, side by side\n\n\
         <!-- Written by cargo run -p saline-conformance --bin conformance, from the reports in target/conformance -->\n\n\
         What came of each requirement of [the contract](transport-contract.md) on each backend. A skip\n\
         follows from what the backend declares; a known gap is declared, with its reason below.\n\n",
    );
    page.push_str(&summary(reports));
    let mut notes = String::new();
    for (id, title) in rows(reports) {
        let _ = write!(page, "| {id} {title} |");
        for report in reports {
            let entry = report.requirements.iter().find(|entry| entry.id == id);
            let mark = entry.map_or_else(|| "not run".to_owned(), |e| e.outcome.to_string());
            column(&mut page, &mark);
            if let Some(entry) = entry.filter(|entry| entry.outcome == Mark::KnownGap) {
                let _ = writeln!(notes, "- {} {id}: {}", report.backend, cell(&entry.reason));
            }
        }
        page.push('\n');
    }
    if !notes.is_empty() {
        let _ = write!(page, "\n## Known gaps\n\n{notes}");
    }
    page
}

/// The head of that table: how many requirements each backend passes, skips, and so on.
pub fn summary(reports: &[Report]) -> String {
    let mut page = String::from("| |");
    reports
        .iter()
        .for_each(|report| column(&mut page, &report.backend));
    page.push_str("\n|---|");
    reports.iter().for_each(|_| page.push_str("---|"));
    page.push('\n');
    let row = |page: &mut String, name: &str, count: &dyn Fn(&Report) -> usize| {
        let _ = write!(page, "| **{name}** |");
        for report in reports {
            column(page, &count(report).to_string());
        }
        page.push('\n');
    };
    for (name, mark) in [
        ("passed", Mark::Pass),
        ("skipped", Mark::Skipped),
        ("known gaps", Mark::KnownGap),
    ] {
        row(&mut page, name, &|report| report.count(mark));
    }
    row(&mut page, "failed", &Report::failures);
    page
}

fn column(page: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = write!(page, " {text} |");
}

/// Every id that this suite or a report knows, with what it is called.
fn rows(reports: &[Report]) -> BTreeMap<&str, String> {
    let reported = reports.iter().flat_map(|report| &report.requirements);
    let mut rows: BTreeMap<_, _> = reported
        .map(|entry| (entry.id.as_str(), String::new()))
        .collect();
    rows.extend(requirements::all().map(|own| (own.id, own.name.replace('_', " "))));
    rows
}
