//! A frozen peer shares no code with what it is compared with.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::path::Path;

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

#[test]
fn a_peer_knows_the_transports_and_nothing_else_of_ours() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(files.len() > 8, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|line| !line.trim().starts_with("//"));
        for line in code {
            let others = line.replace("saline_protocol::transport::", "");
            assert!(!others.contains("saline_"), "{}: {line}", file.display());
        }
    }
}
