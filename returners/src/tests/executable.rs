//! The destination `executable`, with scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::DeliveryError;

fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("take");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn running(path: &Path, arguments: &[&str], timeout: Duration) -> Box<dyn Destination> {
    destination(ReturnerName::Executable, |config| {
        let words = std::iter::once(path.to_str().unwrap()).chain(arguments.iter().copied());
        config.executable.command = words.map(str::to_owned).collect();
        config.executable.timeout = timeout;
    })
}

#[tokio::test]
async fn a_program_gets_a_line_for_each_record() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path(), "cat > \"$1\"");
    let taken = folder.path().join("taken");
    let minute = Duration::from_secs(60);
    let mut program = running(&script, &[taken.to_str().unwrap()], minute);
    program.deliver(&batch()).await.unwrap();
    let text = fs::read_to_string(&taken).unwrap();
    assert_eq!(text.lines().count(), 5);
    assert!(
        text.starts_with("{\"kind\": \"job\", \"number\": 1795256000000000, "),
        "{text}"
    );
}

#[tokio::test]
async fn a_program_that_fails_gets_the_batch_again_and_one_that_refuses_does_not() {
    let folder = tempfile::tempdir().unwrap();
    // It says more than a pipe holds, and reads nothing.
    let chatty = "dd if=/dev/zero bs=1000 count=200 2>/dev/null | tr '\\0' x >&2; echo >&2; echo the disk is full >&2; exit \"$1\"";
    let path = script(folder.path(), chatty);
    let minute = Duration::from_secs(60);
    let failed = running(&path, &["1"], minute)
        .deliver(&batch())
        .await
        .unwrap_err();
    let shown = path.display();
    assert_eq!(
        failed,
        DeliveryError::Away(format!("{shown} exited with 1: the disk is full"))
    );
    let refused = running(&path, &["65"], minute)
        .deliver(&batch())
        .await
        .unwrap_err();
    assert_eq!(
        refused,
        DeliveryError::Refused(format!("{shown} refused them: the disk is full"))
    );
    let absent = folder.path().join("absent");
    let failed = running(&absent, &[], minute)
        .deliver(&batch())
        .await
        .unwrap_err();
    assert!(matches!(failed, DeliveryError::Away(_)), "{failed}");
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_ended_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(
        folder.path(),
        "echo $$ > \"$1\"; sleep 600 & trap '' TERM; sleep 600",
    );
    let pid = folder.path().join("pid");
    let mut program = running(&path, &[pid.to_str().unwrap()], Duration::from_secs(1));
    let failed = program.deliver(&batch()).await.unwrap_err();
    assert!(
        failed.to_string().contains("took longer than 1 s"),
        "{failed}"
    );
    // The group of the program is gone when the delivery has failed.
    let group: i32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let group = rustix::process::Pid::from_raw(group).unwrap();
    let left = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        fields.get(2) == Some(&group.as_raw_nonzero().to_string().as_str()) && fields[0] != "Z"
    });
    assert_eq!(left.count(), 0);
}
