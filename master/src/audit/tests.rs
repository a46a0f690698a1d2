//! The audit file on real disks, and on one that is full.

use std::path::Path;

use saline_config::MasterConfig;
use saline_data::Value;
use saline_messages::{Arguments, MinionId};
use saline_protocol::transport::Context;

use super::file::{KEPT_FILES, older, tail};
use super::{Audit, AuditFile, Details, Outcome, Record};
use crate::settings::LiveSettings;

const LARGE: u64 = 1 << 30;

fn record(principal: &str, outcome: Outcome<'static>) -> Record<'static> {
    Record {
        principal: principal.to_owned(),
        action: "publish a job",
        details: Details {
            function: Some("test.ping"),
            ..Details::default()
        },
        outcome,
        goes_on_without: principal == "local root",
    }
}

const ALLOWED: Outcome<'static> = Outcome::Allowed { rule: "local root" };
const REFUSED: Outcome<'static> = Outcome::Refused { rule: "no rule" };

fn audit(path: &Path) -> Audit {
    let settings = LiveSettings::new(&MasterConfig::default());
    Audit::start(path.to_owned(), settings, &Context::default()).unwrap()
}

#[tokio::test]
async fn a_line_says_who_what_and_by_which_rule_and_never_the_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/here/audit.log");
    let audit = audit(&path);
    let arguments = Arguments {
        positional: vec![Value::from("canary-77")],
        named: Vec::new(),
    };
    let packed = arguments.pack();
    let minions: Vec<MinionId> = (0..100)
        .map(|n| MinionId::parse(&format!("m{n}")).unwrap())
        .collect();
    let long = "x".repeat(5_000);
    let mut pending = audit
        .append(Record {
            details: Details {
                function: Some("test.ping"),
                arguments: Some(&packed),
                minions: Some(&minions),
                subject: Some(long),
                ..Details::default()
            },
            ..record("operator a\n{\"forged\": 1}", ALLOWED)
        })
        .await
        .unwrap();
    pending.written().await.unwrap();
    pending.synced().await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    for part in [
        r#""principal": "operator a\n{"#,
        r#""action": "publish a job", "function": "test.ping", "arguments": "sha256:"#,
        r#""m63"], "minion_count": 100, "minions_digest": "sha256:"#,
        r#""decision": "allowed", "rule": "local root"}"#,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("canary") && !text.contains("m64"), "{text}");
    assert!(text.len() < 4_000, "{}", text.len());
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn what_has_no_effect_has_a_budget_and_what_is_left_out_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let audit = audit(&path);
    for number in 0..100 {
        let mut record = record("local user eve", REFUSED);
        if number % 2 == 0 {
            // Nothing follows from this one either.
            record.outcome = ALLOWED;
            record.details.minions = Some(&[]);
        }
        audit.append(record).await;
    }
    for principal in ["local root", "local user eve"] {
        let line = audit.append(record(principal, ALLOWED)).await.unwrap();
        line.synced().await.unwrap();
    }
    let lines = audit.tail(1_000).await.unwrap();
    let suppressed = 102 - lines.len();
    assert!((70..=80).contains(&suppressed), "{suppressed}");
    let [.., of_root, of_eve] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(!of_root.contains("lines_suppressed"), "{of_root}");
    let told = format!(r#""lines_suppressed": {suppressed}}}"#);
    assert!(of_eve.ends_with(&told), "{of_eve}");
}

#[tokio::test]
async fn a_full_disk_is_told_and_gone_when_there_is_room() {
    let audit_full = audit(Path::new("/dev/full"));
    let mut pending = audit_full
        .append(record("local root", ALLOWED))
        .await
        .unwrap();
    let error = pending.written().await.unwrap_err();
    assert!(
        error.to_string().contains("/dev/full: No space left"),
        "{error}"
    );
    pending.synced().await.unwrap_err();

    // What cannot be opened can be, later.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    std::fs::create_dir(&path).unwrap();
    let audit = audit(&path);
    let pending = audit.append(record("local root", ALLOWED)).await.unwrap();
    pending.synced().await.unwrap_err();
    std::fs::remove_dir(&path).unwrap();
    let pending = audit.append(record("local root", ALLOWED)).await.unwrap();
    pending.synced().await.unwrap();
    assert_eq!(audit.tail(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_line_says_how_many_of_root_are_missing_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    std::fs::create_dir(&path).unwrap();
    let audit = audit(&path);
    for number in 0..40 {
        // What is refused is counted in lines that are not written either.
        audit.append(record("local user eve", REFUSED)).await;
        let who = if number < 3 {
            "local root"
        } else {
            "operator a"
        };
        let pending = audit.append(record(who, ALLOWED)).await.unwrap();
        pending.synced().await.unwrap_err();
    }
    let counts = audit.append(record("local user eve", ALLOWED)).await;
    counts.unwrap().synced().await.unwrap_err();
    std::fs::remove_dir(&path).unwrap();
    for who in ["operator a", "local user eve", "local user eve"] {
        let pending = audit.append(record(who, ALLOWED)).await.unwrap();
        pending.synced().await.unwrap();
    }
    let lines = audit.tail(10).await.unwrap();
    assert_eq!(lines.len(), 3, "{lines:?}");
    // What was refused to operators has not happened.
    assert!(lines[0].ends_with(r#", "lines_missing": 3}"#), "{lines:?}");
    assert!(lines[1].contains(r#""lines_suppressed": "#), "{lines:?}");
    assert!(!lines[1].contains("lines_missing"), "{lines:?}");
    assert!(!lines[2].contains("lines_"), "{lines:?}");
}

#[test]
fn files_are_set_aside_by_size_and_a_fixed_number_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let mut file = AuditFile::new(path.clone());
    for number in 0..40 {
        let appended = file.append(format!("line {number:03}\n").as_bytes(), 20);
        appended.unwrap().sync().unwrap();
    }
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    let kept = usize::try_from(KEPT_FILES).unwrap();
    assert_eq!(names.len(), kept + 1, "{names:?}");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&path), "line 038\nline 039\n");
    assert_eq!(read(&older(&path, KEPT_FILES)), "line 028\nline 029\n");
    assert_eq!(
        tail(&path, 3).unwrap(),
        ["line 037", "line 038", "line 039"]
    );
    let all: Vec<String> = (28..40).map(|number| format!("line {number:03}")).collect();
    assert_eq!(tail(&path, 1_000).unwrap(), all);
    assert_eq!(tail(&path, 7).unwrap(), all[5..]);
}

#[test]
fn a_torn_line_ends_and_a_file_that_was_moved_away_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    std::fs::write(&path, "whole\ntor").unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let mut file = AuditFile::new(path.clone());
    file.append(b"next\n", LARGE).unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "whole\ntor\nnext\n"
    );
    let moved = folder.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    file.append(b"after\n", LARGE).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "after\n");
    assert!(!std::fs::read_to_string(&moved).unwrap().contains("after"));
}

#[test]
fn who_waits_for_a_file_whose_sync_failed_is_told_and_the_next_line_has_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let mut file = AuditFile::new(path.clone());
    let first = file.append(b"first\n", LARGE).unwrap();
    let second = file.append(b"second\n", LARGE).unwrap();
    first.lose();
    first.sync().unwrap_err();
    second.sync().unwrap_err();
    file.append(b"third\n", LARGE).unwrap().sync().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "first\nsecond\nthird\n");
}

#[test]
fn a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("audit.log"), folder.path().join("other"));
    std::fs::write(&other, "").unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    let mut file = AuditFile::new(path.clone());
    assert!(file.append(b"line\n", LARGE).is_err());
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "");
    std::fs::write(&other, "of another file\n").unwrap();
    let error = tail(&path, 1).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
}

#[test]
fn a_file_that_others_can_read_is_closed_to_them() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    std::fs::write(&path, "old\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let mut file = AuditFile::new(path.clone());
    file.append(b"new\n", LARGE).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o600);
    assert_eq!(tail(&path, 9).unwrap(), ["old", "new"]);
}
