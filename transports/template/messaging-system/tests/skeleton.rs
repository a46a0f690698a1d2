//! What the suite says about a skeleton in which nothing is written. Delete this in your copy.

use std::sync::Arc;

use saline_conformance::{Backend, Verdict, answer_if_asked, requirements, run_one};
use saline_protocol::transport::Transport;
use saline_template_messaging_system::Template;

#[derive(Debug)]
struct Skeleton;

impl Backend for Skeleton {
    fn name(&self) -> &'static str {
        "template"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Template::new())
    }
}

#[test]
fn every_failure_says_what_to_write_and_where_the_guide_speaks_of_it() {
    let backend: Arc<dyn Backend> = Arc::new(Skeleton);
    // What measures memory runs in a process of its own, which is this test again.
    if answer_if_asked(&backend) {
        return;
    }
    let mut failures = 0;
    for requirement in requirements::all() {
        if let Verdict::Fail(text) = run_one(&backend, requirement) {
            failures += 1;
            assert!(
                text.contains("not written yet: ") && text.contains("docs/writing-a-transport.md"),
                "{}: {text}",
                requirement.id
            );
        }
    }
    assert!(failures > 50, "{failures} requirements fail on a skeleton");
}

#[test]
fn the_manifest_in_the_guide_has_what_the_skeleton_needs() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let guide = std::fs::read_to_string(format!("{root}/docs/writing-a-transport.md")).unwrap();
    let manifest = guide.split("```toml\n").nth(2).unwrap();
    let manifest = manifest.split("```").next().unwrap();
    let own = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let needed = own
        .lines()
        .filter_map(|line| line.split_once(".workspace = true"));
    let needed: Vec<_> = needed
        .map(|(name, _)| name)
        .skip_while(|name| *name != "saline-engine")
        .collect();
    assert!(needed.len() >= 7, "{needed:?}");
    for name in needed {
        assert!(manifest.contains(&format!("\n{name} = ")), "{name}");
    }
}

#[test]
fn the_sections_that_it_names_are_in_the_guide() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let guide = std::fs::read_to_string(format!("{root}/docs/writing-a-transport.md")).unwrap();
    let mut named = 0;
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        // `"6. Connecting"`: a number, a dot, and the title.
        for quoted in text.split('"').skip(1).step_by(2) {
            let number = quoted.split(". ").next().unwrap_or_default();
            if !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()) {
                named += 1;
                assert!(guide.contains(&format!("\n## {quoted}\n")), "{quoted}");
            }
        }
    }
    assert!(named >= 7, "{named} sections are named");
}
