//! Holds the fuzzer's binaries and the corpora to the list of targets.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use saline_fuzz_targets::TARGETS;

fn targets() -> BTreeSet<String> {
    TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names in a folder, without extensions.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|entry| stem(entry.unwrap().path())).collect()
}

#[test]
fn every_target_has_a_binary_and_a_corpus() {
    assert_eq!(targets().len(), TARGETS.len(), "a name occurs twice");
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let binaries = manifest.split("[[bin]]").skip(1).map(|binary| {
        let name = binary.split('"').nth(1).unwrap();
        assert!(binary.contains(&format!("path = \"fuzz_targets/{name}.rs\"")));
        name.to_owned()
    });
    assert_eq!(binaries.collect::<BTreeSet<_>>(), targets());
    assert_eq!(names("fuzz/fuzz_targets"), targets());
    assert_eq!(names("fuzz-targets/corpora"), targets());
}

#[test]
fn every_target_is_documented() {
    let documented = fs::read_to_string(root().join("docs/fuzzing.md")).unwrap();
    for target in TARGETS {
        let row = format!("| `{}` |", target.name);
        assert!(documented.contains(&row), "{} has no row", target.name);
    }
}

#[test]
fn the_corpora_stay_small() {
    let corpora = TARGETS.iter().flat_map(|target| {
        let folder = root().join("fuzz-targets/corpora").join(target.name);
        fs::read_dir(folder).unwrap()
    });
    let bytes: u64 = corpora
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 1024 * 1024, "{bytes} bytes");
}
