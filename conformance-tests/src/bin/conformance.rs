//! Puts the reports of several backends side by side.
//!
//! `cargo run -p saline-conformance --bin conformance` reads every report in `target/conformance`
//! and prints the table; `-- --write docs/conformance.md` writes it, `-- FILE…` takes these reports.
//! `--summary README.md` writes the head of the table between the two comments that say so there.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use saline_conformance::report::{Report, folder, side_by_side, summary};

const USAGE: &str = "usage: conformance [--write PAGE] [--summary PAGE] [REPORT.json …]";

/// Where a summary begins and ends.
const SUMMARY: [&str; 2] = ["<!-- conformance -->\n", "<!-- end of conformance -->"];

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).map(PathBuf::from)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: impl Iterator<Item = PathBuf>) -> Result<(), String> {
    let (mut page, mut summarized, mut files) = (None, None, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--write") => page = Some(arguments.next().ok_or(USAGE)?),
            Some("--summary") => summarized = Some(arguments.next().ok_or(USAGE)?),
            Some("--help" | "-h") => {
                println!("{USAGE}");
                return Ok(());
            }
            Some(option) if option.starts_with('-') => return Err(USAGE.to_owned()),
            _ => files.push(argument),
        }
    }
    let named = !files.is_empty();
    if !named {
        files = in_folder(&folder())?;
    }
    let mut reports = Vec::new();
    for file in files {
        match Report::read(&file) {
            Ok(report) => reports.push(report),
            Err(error) if named => return Err(format!("{}: {error}", file.display())),
            // A badge, say.
            Err(_) => {}
        }
    }
    if reports.is_empty() {
        return Err("there is no report: run cargo test --test conformance first".to_owned());
    }
    reports.sort_by(|a, b| a.backend.cmp(&b.backend));
    let table = side_by_side(&reports);
    let failed = |page: &Path, error: &dyn Display| format!("{}: {error}", page.display());
    if let Some(page) = &summarized {
        let text = std::fs::read_to_string(page).map_err(|error| failed(page, &error))?;
        let text = with_summary(&text, &summary(&reports));
        let text = text.ok_or_else(|| failed(page, &format!("no {:?} in it", SUMMARY[0])))?;
        std::fs::write(page, text).map_err(|error| failed(page, &error))?;
    }
    match &page {
        Some(page) => std::fs::write(page, table).map_err(|error| failed(page, &error)),
        None if summarized.is_none() => {
            print!("{table}");
            Ok(())
        }
        None => Ok(()),
    }
}

/// `text` with `summary` where its comments say.
fn with_summary(text: &str, summary: &str) -> Option<String> {
    let (before, rest) = text.split_once(SUMMARY[0])?;
    let (_, after) = rest.split_once(SUMMARY[1])?;
    Some([before, SUMMARY[0], summary, SUMMARY[1], after].concat())
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = std::fs::read_dir(folder);
    let listed = listed.map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = listed.filter_map(|found| Some(found.ok()?.path()));
    Ok(paths
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect())
}
