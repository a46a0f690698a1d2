//! The destination `executable`, with scripts.

use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use saline_protocol::transport::Clock;

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
    // The program and its children have the FIFO open for as long as they live.
    let alive = folder.path().join("alive");
    rustix::fs::mknodat(CWD, &alive, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let reader = fs::File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(&alive)
        .unwrap();
    let path = script(
        folder.path(),
        "exec 3> \"$1\"; sleep 120 & trap '' TERM; sleep 120",
    );
    let mut program = running(&path, &[alive.to_str().unwrap()], Duration::from_secs(1));
    let failed = program.deliver(&batch()).await.unwrap_err();
    assert!(
        failed.to_string().contains("took longer than 1 s"),
        "{failed}"
    );
    // Their end closes the FIFO. The kernel may take a moment for it: the signal is sent when the delivery has failed.
    rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
    let read = move || io::copy(&mut &reader, &mut io::sink());
    let closed = Context::default().spawn_blocking(read);
    let deadline = Clock.after(Duration::from_secs(60));
    let closed = Clock.deadline(deadline, closed).await;
    assert_eq!(closed.expect("a child lives").unwrap().unwrap(), 0);
}
