//! The quickstart, as a newcomer runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use saline_testing::{CommandOutput, Programs};

/// Returns the lines of `text` that show a command.
fn commands(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| line.starts_with("$ saline") && !line.starts_with("$ saline-key"))
        .collect()
}

#[test]
fn the_tour_of_the_web_fleet_is_what_its_page_explains() {
    // In a folder without the programs that belong to a master and a minion: the quickstart contains them.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("saline-quickstart");
    Programs::copy(env!("CARGO_BIN_EXE_saline-quickstart"), &program).unwrap();
    let tour: CommandOutput = Command::new(program)
        .args(["--example", "web-fleet", "--exit", "--transport", "tcp"])
        .output()
        .unwrap()
        .into();
    let said = tour.expect(0).stdout;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/web-fleet/README.md");
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(commands(&said), commands(&page));
    let quoted = page.split("```").skip(1).step_by(2);
    let outputs = quoted.flat_map(|block| block.split("$ ").skip(1));
    // What comes in the order of arrival, and has pids, is compared below.
    let steady = outputs.filter(|output| {
        !output.contains("pid:") && !output.contains("event.send") && !output.contains("A@roles")
    });
    let mut compared = 0;
    for output in steady {
        assert!(said.contains(&format!("$ {output}")), "{output}\n{said}");
        compared += 1;
    }
    assert_eq!(compared, 5);
    for number in 1..=3 {
        let page = format!("served by web{number}.example.org.");
        assert!(said.contains(&page), "{said}");
    }
    let balancer = said.split("balancer/show.sh").nth(1).unwrap();
    assert!(
        balancer.contains("\n        web1\n        web2\n        web3\n"),
        "{said}"
    );
}

/// Adds the paths of the files below `folder` to `found`.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => walk(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}

#[test]
fn every_file_of_the_web_fleet_is_in_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = fs::read(env!("CARGO_BIN_EXE_saline-quickstart")).unwrap();
    let mut found = Vec::new();
    walk(&root.join("examples/web-fleet"), &mut found);
    assert!(found.len() > 5);
    for path in found.iter().filter(|path| !path.ends_with("README.md")) {
        let text = fs::read(path).unwrap();
        let contained = program.windows(text.len()).any(|window| window == text);
        assert!(contained, "{} is not in the quickstart", path.display());
    }
}
