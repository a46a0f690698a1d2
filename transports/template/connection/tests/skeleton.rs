//! What the guide promises of the skeleton. Delete this in your copy.

#[test]
fn the_skeleton_is_below_150_lines() {
    let files = [
        include_str!("../src/lib.rs"),
        include_str!("../src/connection.rs"),
    ];
    let lines: usize = files.iter().map(|file| file.lines().count()).sum();
    assert!(lines < 150, "{lines} lines");
}

#[test]
fn the_manifest_in_the_guide_has_what_the_skeleton_needs() {
    let guide = include_str!("../../../../docs/writing-a-transport.md");
    let manifest = guide.split("```toml\n").nth(1).unwrap();
    let manifest = manifest.split("```").next().unwrap();
    let needed = include_str!("../Cargo.toml")
        .lines()
        .filter_map(|line| line.split_once(".workspace = true"));
    let needed: Vec<_> = needed
        .map(|(name, _)| name)
        .skip_while(|name| *name != "saline-engine")
        .collect();
    assert!(needed.len() >= 5, "{needed:?}");
    for name in needed {
        assert!(manifest.contains(&format!("\n{name} = ")), "{name}");
    }
}
