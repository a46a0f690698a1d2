//! Reports: their schema, their forms, and the table of several.

#![allow(clippy::unwrap_used, reason = "the whole program is a test")]

mod schema;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use saline_conformance::report::{Entry, Mark, Report, side_by_side};
use saline_conformance::{Backend, Need, Verdict, requirements, run_one};
use saline_protocol::transport::Transport;
use serde_json::{Value, json};

#[derive(Debug)]
struct InMemory;

impl Backend for InMemory {
    fn name(&self) -> &'static str {
        "memory"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(saline_inproc::InProc::new())
    }
    fn time_may_be_paused(&self) -> bool {
        true
    }
}

/// A report of a real run, but for what needs a process of its own, which this program is not.
fn real() -> Report {
    let backend: Arc<dyn Backend> = Arc::new(InMemory);
    let entries = requirements::all().map(|requirement| {
        let verdict = match requirement.needs.contains(&Need::OwnProcess) {
            true => Verdict::Skipped("not here"),
            false => run_one(&backend, requirement),
        };
        Entry::new(requirement, &verdict, Duration::from_millis(3))
    });
    let entries = entries.collect();
    Report::new(backend.as_ref(), Duration::from_millis(1234), entries)
}

/// The same with some outcomes that a good backend does not have.
fn bad() -> Report {
    let mut report = real();
    for (id, mark) in [
        ("CAN-001", Mark::Fail),
        ("CAN-002", Mark::KnownGap),
        ("CAN-003", Mark::UnexpectedPass),
    ] {
        let mut entries = report.requirements.iter_mut();
        let entry = entries.find(|entry| entry.id == id).unwrap();
        entry.outcome = mark;
        entry.reason = "it said <\"no\"> & | went\naway\u{1}".into();
    }
    report.backend = "bad".into();
    report
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/report.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_real_report_keeps_the_schema() {
    for report in [real(), bad()] {
        let value: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(schema::violations(&schema(), &value), Vec::<String>::new());
    }
}

#[test]
fn the_schema_refuses_what_is_no_report() {
    let good: Value = serde_json::from_str(&real().to_json()).unwrap();
    for (pointer, wrong) in [
        ("", json!([])),
        ("/backend", json!("")),
        ("/seed", json!(-1)),
        ("/seconds", json!("long")),
        ("/capabilities/drop_accounting", json!("some")),
        ("/requirements", json!([])),
        ("/requirements/0/level", json!("must")),
        ("/requirements/0/outcome", json!("passed")),
        ("/requirements/0/ms", json!(0.5)),
    ] {
        let mut value = good.clone();
        *value.pointer_mut(pointer).unwrap() = wrong;
        assert!(
            !schema::violations(&schema(), &value).is_empty(),
            "{pointer}"
        );
    }
    let mut more = good.clone();
    more["extra"] = json!(1);
    assert!(!schema::violations(&schema(), &more).is_empty());
    let mut less = good;
    less.as_object_mut().unwrap().remove("seed");
    assert!(!schema::violations(&schema(), &less).is_empty());
}

#[test]
fn a_report_is_written_in_all_its_forms_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let report = bad();
    report.write(folder.path()).unwrap();
    assert_eq!(
        Report::read(&folder.path().join("bad.json")).unwrap(),
        report
    );
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let xml = read("bad.junit.xml");
    assert_eq!(xml.matches("<testcase ").count(), report.requirements.len());
    let failed = report.requirements.iter().filter(|own| {
        let outcome = own.outcome;
        matches!(outcome, Mark::Fail | Mark::UnexpectedPass)
    });
    let failed = failed.count();
    assert!(failed >= 2, "two were made to fail");
    assert_eq!(xml.matches("<failure ").count(), failed);
    assert!(xml.contains("&lt;&quot;no&quot;&gt; &amp; | went&#10;away\u{fffd}"));
    assert!(read("bad.md").contains("| fail | 3 | it said &lt;\"no\"> & \\| went away"));
    let badge: Value = serde_json::from_str(&read("badge.json")).unwrap();
    assert_eq!(badge["schemaVersion"], 1);
    assert_eq!(badge["color"], "red");
    assert!(Report::read(&folder.path().join("badge.json")).is_err());
}

#[test]
fn several_reports_stand_side_by_side() {
    let table = side_by_side(&[bad(), real()]);
    assert!(table.contains("| | bad | memory |\n"));
    assert!(table.contains("| CAN-001 dropped requests | fail | pass |\n"));
    assert!(table.contains("| CAN-002 dropped delivery | known gap | pass |\n"));
    assert!(table.contains("- bad CAN-002: it said"));
    for requirement in requirements::all() {
        assert!(table.contains(&format!("| {} ", requirement.id)));
    }
}
