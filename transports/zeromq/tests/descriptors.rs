//! No child process inherits a descriptor of libzmq: what `build.rs` compiles again. A file of its own, because
//! the descriptors are the process's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "integration/support/mod.rs"]
#[allow(dead_code, reason = "the rest is used in `integration`")]
mod support;

use std::collections::BTreeMap;
use std::fs;

use rustix::fs::OFlags;
use saline_protocol::transport::ServeAt;
use support::{TestServer, ask, exact, limits, local_path, transport};

/// Returns the open descriptors of this process with their flags, as `/proc` shows them.
fn descriptors() -> BTreeMap<String, OFlags> {
    let flags = |text: &str| {
        let octal = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(octal.trim(), 8).ok()
    };
    let entries = fs::read_dir("/proc/self/fdinfo").unwrap();
    let entries = entries.filter_map(|entry| {
        let entry = entry.unwrap();
        // The descriptor by which the folder is read is gone when its turn comes.
        let text = fs::read_to_string(entry.path()).ok()?;
        let number = entry.file_name().into_string().unwrap();
        let target = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        let bits = OFlags::from_bits_retain(flags(&text).unwrap());
        Some((format!("{number} ({})", target.display()), bits))
    });
    entries.collect()
}

#[tokio::test]
async fn every_descriptor_of_a_server_and_a_client_closes_on_exec() {
    // What the test's own parent left open.
    let before = descriptors();
    let folder = tempfile::tempdir().unwrap();
    let local = ServeAt {
        requests: local_path(folder.path().join("requests")),
        publications: Some(local_path(folder.path().join("publications"))),
    };
    let mut servers = vec![
        TestServer::new().await,
        TestServer::with(transport(), local, limits()).await,
    ];
    let mut held = Vec::new();
    for server in &mut servers {
        server.echo();
        let client = server.client().await;
        assert_eq!(ask(&client, "steady").await.unwrap(), "steady");
        let filter = exact("job/all");
        let subscriber = server.subscribe(&client, filter).await;
        held.push((client, subscriber));
    }
    let mut opened = descriptors();
    opened.retain(|name, _| !before.contains_key(name));
    let sockets = opened.keys().filter(|name| name.contains("socket:"));
    assert!(sockets.count() >= 8, "{opened:?}");
    assert!(opened.keys().any(|name| name.contains("eventpoll")));
    opened.retain(|_, flags| !flags.contains(OFlags::CLOEXEC));
    assert!(opened.is_empty(), "a child would inherit {opened:?}");
}
