//! `docs/transport-contract.md` is what the requirements say.

use std::path::Path;

use saline_conformance::contract;

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
