//! The report of a run: the ledger as a table, the verdict on each book, and both as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::books::{Book, Finding, Ledger};
use crate::evidence::Evidence;
use crate::plan::Plan;
use crate::states::State;

/// The findings of a book that are printed; the JSON has all of them.
const SHOWN: usize = 12;

/// What one minion, or one clone, did.
#[derive(Debug, Default)]
struct Row {
    expected: usize,
    runs: usize,
    returns: usize,
    states: BTreeMap<State, usize>,
}

/// Returns the plan in lines: a fault, a job or an order about a file each, in the order of their times.
pub(crate) fn plan(plan: &Plan) -> String {
    let faults = plan.faults.iter().map(|fault| {
        let lasts = fault.lasts.as_secs_f64();
        (fault.at, format!("{}, for {lasts:.1} s", fault.fault))
    });
    let jobs = plan.jobs.iter().map(|job| {
        let text = format!(
            "job {} for {}: {}, takes {:.1} s, prints {} bytes",
            job.token,
            job.target().join(" "),
            job.mode.name(),
            job.takes.as_secs_f64(),
            job.prints
        );
        (job.at, text)
    });
    let orders = plan.file_orders.iter().map(|order| {
        let (act, minion) = (order.act, order.minion);
        let text = format!(
            "file order {} for m{minion}: {act:?} {}, {} bytes",
            order.number,
            order.name(),
            order.size
        );
        (order.at, text)
    });
    let mut lines: Vec<_> = faults.chain(jobs).chain(orders).collect();
    lines.sort();
    let lines = lines
        .iter()
        .map(|(at, text)| format!("[{:8.3} s] {text}\n", at.as_secs_f64()));
    lines.collect()
}

fn rows(evidence: &Evidence) -> BTreeMap<String, Row> {
    let ledger = Ledger::new(evidence);
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (jid, job) in &evidence.jobs {
        for minion in job.states.keys() {
            let row = rows.entry(minion.clone()).or_default();
            row.expected += 1;
            row.returns += job.returns.get(minion).map_or(0, Vec::len);
            if let Some(state) = ledger.final_state(jid, job, minion) {
                *row.states.entry(state).or_default() += 1;
            }
        }
    }
    for run in &evidence.runs {
        rows.entry(run.instance.clone()).or_default().runs += 1;
    }
    rows
}

/// Returns the table and the verdicts.
pub(crate) fn text(evidence: &Evidence, books: &[Book]) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "\n{:<20} {:>8} {:>6} {:>8}  states",
        "instance", "expected", "runs", "returns"
    );
    for (instance, row) in rows(evidence) {
        let states: Vec<_> = row
            .states
            .iter()
            .map(|(state, n)| format!("{state} {n}"))
            .collect();
        let _ = writeln!(
            text,
            "{instance:<20} {:>8} {:>6} {:>8}  {}",
            row.expected,
            row.runs,
            row.returns,
            states.join(", ")
        );
    }
    let _ = writeln!(text);
    for (name, why) in &evidence.history.impossible {
        let _ = writeln!(text, "not possible here: {name}: {why}");
    }
    for book in books {
        let verdict = match book.balances() {
            true => "balances".to_owned(),
            false => format!("DOES NOT BALANCE, {} times", book.findings.len()),
        };
        let _ = writeln!(
            text,
            "{:<15} {verdict} ({} checked): {}",
            book.name, book.checked, book.promise
        );
        for finding in book.findings.iter().take(SHOWN) {
            let _ = writeln!(
                text,
                "    {} {}: {}",
                or_dash(&finding.jid),
                or_dash(&finding.minion),
                finding.evidence
            );
        }
        if book.findings.len() > SHOWN {
            let _ = writeln!(text, "    and {} more", book.findings.len() - SHOWN);
        }
        if !book.counted.is_empty() {
            let _ = writeln!(
                text,
                "    {} times as documented, which is no finding:",
                book.counted.len()
            );
        }
        for counted in book.counted.iter().take(SHOWN) {
            let _ = writeln!(
                text,
                "    {} {}: {}",
                or_dash(&counted.jid),
                or_dash(&counted.minion),
                counted.evidence
            );
        }
    }
    text
}

fn or_dash(text: &str) -> &str {
    match text {
        "" => "-",
        text => text,
    }
}

/// Returns the same as JSON.
pub(crate) fn json(arguments: &Arguments, seed: u64, evidence: &Evidence, books: &[Book]) -> Value {
    let ledger = rows(evidence).into_iter().map(|(instance, row)| {
        let states = row
            .states
            .iter()
            .map(|(state, n)| (state.to_string(), json!(n)));
        let row = json!({
            "expected": row.expected,
            "runs": row.runs,
            "returns": row.returns,
            "states": Value::Object(states.collect()),
        });
        (instance, row)
    });
    let books = books.iter().map(|book| {
        let listed = |findings: &[Finding]| {
            let findings = findings.iter().map(|finding| {
                json!({
                    "jid": finding.jid,
                    "minion": finding.minion,
                    "evidence": finding.evidence,
                })
            });
            findings.collect::<Vec<_>>()
        };
        json!({
            "name": book.name,
            "promise": book.promise,
            "balances": book.balances(),
            "checked": book.checked,
            "findings": listed(&book.findings),
            "as_documented": listed(&book.counted),
        })
    });
    let impossible = evidence.history.impossible.iter();
    let impossible = impossible.map(|(name, why)| (name.clone(), json!(why)));
    json!({
        "transport": arguments.transport.name(),
        "seed": seed,
        "seconds": arguments.length().as_secs_f64(),
        "minions": arguments.minions,
        "sabotage": arguments.sabotage.map(|sabotage| sabotage.name()),
        "chaos_feature": cfg!(feature = "chaos"),
        "faults": evidence.history.lines,
        "not_possible_here": Value::Object(impossible.collect()),
        "ledger": Value::Object(ledger.collect()),
        "books": books.collect::<Vec<_>>(),
    })
}
