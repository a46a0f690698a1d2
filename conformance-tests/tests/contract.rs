//! The books about the requirements say what the requirements say.

use std::path::Path;

use saline_conformance::{contract, requirements};

const REWRITE: &str = "SALINE_WRITE_DOCS";

#[test]
fn the_book_of_the_contract_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/transport-contract.md");
    let page = contract::page();
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stands = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stands == page,
        "docs/transport-contract.md is stale: {REWRITE}=1 cargo test -p saline-conformance --test contract"
    );
}

#[test]
fn the_table_of_the_backends_has_every_requirement_and_stands_in_the_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = std::fs::read_to_string(root.join("docs/conformance.md")).unwrap();
    let again = "run the suites, then cargo run -p saline-conformance --bin conformance -- \
                 --write docs/conformance.md --summary README.md";
    for requirement in requirements::all() {
        let row = format!(
            "\n| {} {} |",
            requirement.id,
            requirement.name.replace('_', " ")
        );
        assert!(
            table.contains(&row),
            "no row for {}: {again}",
            requirement.id
        );
    }
    let begin = table.find("| | ").unwrap();
    let head = &table[begin..begin + table[begin..].find("\n| BUS-").unwrap()];
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert!(
        readme.contains(head),
        "the README shows another head: {again}"
    );
}
