//! What each mutant fails besides its targets: `snapshot.txt`, which is reviewed. It takes minutes,
//! so it is run with `--ignored`; `SALINE_WRITE_DOCS=1` writes it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use saline_conformance::Need;

use crate::mutant::{Mutant, Which};
use crate::{beside_each_other, failures, is_of_the_wire, tried};

const REWRITE: &str = "SALINE_WRITE_DOCS";

const HEAD: &str = "\
# What each mutant fails: its targets and whatever else. SALINE_WRITE_DOCS=1 cargo test -p
# saline-conformance --test mutants -- --ignored what_else writes it; what is new in it is looked at.
";

#[test]
#[ignore = "runs the whole suite on every mutant"]
fn what_else_a_mutant_fails_was_reviewed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mutants/snapshot.txt");
    let failed: BTreeMap<String, BTreeSet<String>> =
        beside_each_other(&tried(), |&(which, _)| (which.to_string(), failed(which)))
            .into_iter()
            .collect();
    if std::env::var_os(REWRITE).is_some() {
        let mut text = HEAD.to_owned();
        for (mutant, ids) in &failed {
            let ids: Vec<_> = ids.iter().map(String::as_str).collect();
            writeln!(text, "{mutant}: {}", ids.join(" ")).unwrap();
        }
        std::fs::write(&path, text).unwrap();
    }
    let reviewed = std::fs::read_to_string(&path).unwrap();
    let reviewed: BTreeMap<&str, BTreeSet<&str>> = reviewed
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(mutant, ids)| (mutant, ids.split_whitespace().collect()))
        .collect();
    let mut new = Vec::new();
    for (mutant, ids) in &failed {
        let known = reviewed.get(mutant.as_str());
        let unknown = |id: &&String| !known.is_some_and(|known| known.contains(id.as_str()));
        new.extend(
            ids.iter()
                .filter(unknown)
                .map(|id| format!("{mutant} fails {id}")),
        );
    }
    assert_eq!(new, Vec::<String>::new(), "not in the snapshot");
}

/// The ids of what it fails: of the toy what concerns the wire, of the others what needs no process.
fn failed(which: Which) -> BTreeSet<String> {
    let texts = failures(Mutant::new(which), |own| match which {
        Which::Toy(_) | Which::Datagrams(_) | Which::Paths(..) => is_of_the_wire(own),
        Which::Memory(_) => !own.needs.contains(&Need::OwnProcess),
    });
    let id = |text: String| text.split(':').next().map(str::to_owned);
    texts.into_iter().filter_map(id).collect()
}
