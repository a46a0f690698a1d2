//! Every snippet of `docs/writing-a-transport.md` stands line by line in this crate, in another example
//! or in the skeleton of a messaging system.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::path::Path;

/// All lines of all files below `folder`, without their indentation.
fn sources(folder: &Path, into: &mut Vec<Vec<String>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else {
            into.push(lines(&std::fs::read_to_string(path).unwrap()));
        }
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn every_snippet_of_the_guide_is_code_that_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in [
        "src",
        "tests",
        "../seqpacket-transport/src",
        "../seqpacket-transport/tests",
        "../udp-transport/src",
        "../../transports/template/messaging-system/src",
    ] {
        sources(&root.join(folder), &mut files);
    }
    let guide = std::fs::read_to_string(root.join("../../docs/writing-a-transport.md")).unwrap();
    let mut found = 0;
    for block in guide.split("```rust\n").skip(1) {
        let snippet = lines(block.split("```").next().unwrap());
        let stands = |file: &Vec<String>| file.windows(snippet.len()).any(|part| part == snippet);
        assert!(
            files.iter().any(stands),
            "in none of the crates: {snippet:#?}"
        );
        found += 1;
    }
    assert!(found >= 18, "{found} snippets");
}
