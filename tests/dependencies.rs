//! The crates that Saline is built of, with their licences and with the last answer of `cargo deny`. The
//! answer is checked in, because whoever builds Saline may have neither cargo-deny nor a network.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

const RENEW: &str = "SALINE_WRITE_DOCS=1 cargo test --test dependencies";

/// A crate of a registry: its name and its version.
type Dependency = (String, String);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn snapshot() -> PathBuf {
    root().join("docs/dependencies.md")
}

fn cargo(arguments: &[&str]) -> std::process::Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command.output().unwrap()
}

fn metadata(arguments: &[&str]) -> Value {
    let all = [
        &["metadata", "--format-version", "1", "--locked"],
        arguments,
    ]
    .concat();
    let output = cargo(&all);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The crates of registries in `Cargo.lock`.
fn locked() -> BTreeSet<Dependency> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.split("[[package]]").skip(1);
    let packages = packages.filter(|package| package.contains("\nsource = "));
    let field = |package: &str, name: &str| {
        let prefix = format!("{name} = \"");
        let mut lines = package.lines();
        let value = lines.find_map(|line| line.strip_prefix(&*prefix)?.strip_suffix('"'));
        value.unwrap().to_owned()
    };
    packages
        .map(|package| (field(package, "name"), field(package, "version")))
        .collect()
}

/// The crates in the table of the snapshot, and their licences.
fn known(snapshot: &str) -> BTreeMap<Dependency, String> {
    let rows = snapshot.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        ((name, cells[2].to_owned()), cells[3].to_owned())
    })
    .collect()
}

#[test]
fn every_dependency_is_in_the_snapshot() {
    if std::env::var_os("SALINE_WRITE_DOCS").is_some() {
        std::fs::write(snapshot(), written()).unwrap();
    }
    let snapshot = std::fs::read_to_string(snapshot()).unwrap_or_default();
    let (locked, known) = (locked(), known(&snapshot));
    let mut differences = String::new();
    for (name, version) in locked.iter().filter(|locked| !known.contains_key(locked)) {
        let _ = writeln!(differences, "  {name} {version} is new");
    }
    for (name, version) in known.keys().filter(|known| !locked.contains(known)) {
        let _ = writeln!(differences, "  {name} {version} is gone");
    }
    assert!(
        differences.is_empty(),
        "the dependencies are not those of docs/dependencies.md:\n{differences}\
         look at what is new, then, with cargo-deny installed and a network: {RENEW}"
    );
    let has_licence = |licence: &String| !licence.is_empty();
    assert!(known.values().all(has_licence), "a crate has no licence");
    for check in ["bans", "licenses", "sources"] {
        let answer = format!("- {check}: ok");
        assert!(snapshot.contains(&answer), "{check} is not ok: {RENEW}");
    }
    assert!(
        snapshot.contains("- advisories: ok") || snapshot.contains("- advisories: not known"),
        "there are advisories about the dependencies: {RENEW}"
    );
}

#[test]
fn no_dependency_has_any_version() {
    let metadata = metadata(&["--no-deps", "--offline"]);
    for package in metadata["packages"].as_array().unwrap() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let is_ours = dependency.get("path").is_some();
            let (of, name) = (text(package, "name"), text(dependency, "name"));
            let any = text(dependency, "req").contains('*');
            assert!(is_ours || !any, "{of} takes any version of {name}");
        }
    }
}

/// The snapshot of what is locked now. It needs a network, and cargo-deny for its answers.
fn written() -> String {
    let mut written = format!(
        "# Dependencies\n\n\
         What Saline is built of, and the answer of `cargo deny check` ([deny.toml](../deny.toml)) that {}; it knows nothing of\n\
         what came out since then. Generated: `{RENEW}`, on a machine with a network and\n\
         cargo-deny. A crate that is added or changed without it fails `tests/dependencies.rs`.\n\n\
         `zeromq-src` has its licence for itself; the libzmq in it is under the LGPL-3.0 or later with an exception for static\n\
         linking, and Saline modifies it: [THIRD-PARTY-NOTICES](../THIRD-PARTY-NOTICES).\n\n\
         ## The answer\n\n",
        version(),
    );
    for check in ["advisories", "bans", "licenses", "sources"] {
        let _ = writeln!(written, "- {check}: {}", answer(check));
    }
    written += "\nAdvisories come out when nobody changes anything here, so CI asks for them daily, where it has a network:\n\
        `cargo deny --all-features check` in `.github/workflows/dependencies.yml`. cargo-deny then fetches the database of\n\
        RustSec, <https://github.com/rustsec/advisory-db>; a mirror of it is named by `db-urls` below `[advisories]` in\n\
        `deny.toml`. `.ci/run` asks for the rest alone, since it also runs without a network.\n";
    written += "\n## The crates\n\n| crate | version | licence |\n|---|---|---|\n";
    let metadata = metadata(&[]);
    let packages = metadata["packages"].as_array().unwrap();
    let of_registries = packages
        .iter()
        .filter(|package| !package["source"].is_null());
    let mut rows: Vec<String> = of_registries
        .map(|package| {
            // Older crates write a choice with a slash.
            let licence = text(package, "license").split('/').map(str::trim);
            let licence = licence.collect::<Vec<_>>().join(" OR ");
            let (name, version) = (text(package, "name"), text(package, "version"));
            format!("| `{name}` | {version} | {licence} |")
        })
        .collect();
    rows.sort();
    written += &rows.join("\n");
    written.push('\n');
    written
}

fn version() -> String {
    let output = cargo(&["deny", "--version"]);
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "cargo install --locked cargo-deny");
    let today = Command::new("date").args(["-u", "+%F"]).output().unwrap();
    let today = String::from_utf8_lossy(&today.stdout).trim().to_owned();
    format!("{version} gave on {today}")
}

/// Returns what cargo-deny says about one of its subjects, in a line.
fn answer(check: &str) -> String {
    let output = cargo(&[
        "deny",
        "--all-features",
        "check",
        "--hide-inclusion-graph",
        check,
    ]);
    if output.status.success() {
        return "ok".to_owned();
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("failed to fetch advisory database") {
        return "not known, because the database of advisories could not be reached".to_owned();
    }
    let errors = said.lines().filter(|line| line.starts_with("error"));
    format!("failed: {}", errors.collect::<Vec<_>>().join("; "))
}
