//! Looks through the files of pillars for what will not render.

use std::collections::BTreeSet;
use std::sync::Arc;

use saline_jailed_files::{EntryKind, InnerPath, ListingLimits, OpenError, Root};
use saline_protocol::transport::Instant;
use saline_render::MAX_FILE;

use super::{COMPILE_TIMEOUT, NotCompiled, Parts, Pillars};
use crate::settings::PillarSettings;

/// What the files of a root may be.
pub(super) const ROOT_LIMITS: ListingLimits = ListingLimits {
    entries: 100_000,
    bytes: 16 * 1024 * 1024,
};

/// The ends of the names of files that are rendered, or included by those that are.
const ENDS: [&str; 4] = [".sls", ".jinja", ".jinja2", ".j2"];

/// A file with something that will not render.
#[derive(Debug)]
pub(crate) struct LintedFile {
    /// The path, as the operator knows it.
    pub(crate) path: String,
    /// A line for each finding, with its place in the file.
    pub(crate) findings: Vec<String>,
}

impl Pillars {
    /// Looks through the files of an environment, or of all, and returns those in which something was found. The grains in `believed`
    /// count as trusted ones.
    ///
    /// # Errors
    /// See [`NotCompiled`].
    ///
    /// # Cancel safety
    /// A render that was begun goes on for half a minute at most.
    pub(crate) async fn lint(
        &self,
        environment: Option<String>,
        believed: BTreeSet<String>,
    ) -> Result<Vec<LintedFile>, NotCompiled> {
        let settings = self.0.settings.now();
        let sources = settings.pillar;
        let mut trusted = believed;
        trusted.extend(settings.root_facts.trusted_grains.iter().cloned());
        // The id is that of the key.
        trusted.insert("id".to_owned());
        if let Some(name) = &environment
            && !sources.has_environment(name)
        {
            return Err(NotCompiled::no_environment(name, &sources));
        }
        let turn = self.turn().await?;
        let parts = Arc::clone(&self.0);
        let working = self.0.context.spawn_blocking(move || {
            let linted = lint(&parts, &trusted, &sources, environment.as_deref());
            drop(turn);
            linted
        });
        // It panicked otherwise, which the runtime logs.
        working.await.map_err(|_| NotCompiled::Failed)
    }
}

fn lint(
    parts: &Parts,
    trusted: &BTreeSet<String>,
    sources: &PillarSettings,
    environment: Option<&str>,
) -> Vec<LintedFile> {
    let ends = parts.context.clock.after(COMPILE_TIMEOUT);
    let environments = sources.environments.iter();
    let roots = environments
        .filter(|(name, _)| environment.is_none_or(|only| only == name.as_str()))
        .flat_map(|(_, roots)| roots);
    let mut found = Vec::new();
    for folder in roots {
        match Root::open(folder) {
            Ok(root) => lint_root(parts, trusted, &root, ends, &mut found),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => found.push(LintedFile {
                path: folder.display().to_string(),
                findings: vec![format!("cannot be opened: {error}")],
            }),
        }
    }
    found
}

fn lint_root(
    parts: &Parts,
    trusted: &BTreeSet<String>,
    root: &Root,
    ends: Instant,
    found: &mut Vec<LintedFile>,
) {
    let mut add = |path: &str, findings: Vec<String>| {
        if !findings.is_empty() {
            let path = root.path().join(path).display().to_string();
            found.push(LintedFile { path, findings });
        }
    };
    let listed = match root.list(&InnerPath::root(), ROOT_LIMITS, |_| true) {
        Ok(Ok(listed)) => listed,
        Ok(Err(_)) => return add("", vec!["has too many files".to_owned()]),
        Err(error) => return add("", vec![format!("cannot be listed: {error}")]),
    };
    for entry in listed.after(None) {
        let is_rendered = ENDS.iter().any(|end| entry.path.ends_with(end));
        if entry.kind != EntryKind::File || !is_rendered {
            continue;
        }
        if parts.context.clock.now() > ends {
            let late = format!(
                "is not looked at, nor what comes behind it: {} s are over",
                COMPILE_TIMEOUT.as_secs()
            );
            return add(entry.path, vec![late]);
        }
        add(entry.path, findings(parts, trusted, root, entry.path));
    }
}

/// Returns a line for each finding in a file.
fn findings(parts: &Parts, trusted: &BTreeSet<String>, root: &Root, name: &str) -> Vec<String> {
    let read = InnerPath::parse(name)
        .map_err(|error| error.to_string())
        .and_then(|path| {
            let read = root.read(&path, MAX_FILE);
            read.map_err(|error: OpenError| format!("cannot be read: {error}"))
        })
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned()));
    let text = match read {
        Ok(text) => text,
        Err(why) => return vec![why],
    };
    // What is included without being YAML itself is a template alone.
    let is_template = ["{{", "{%", "{#"].iter().any(|open| text.contains(open));
    if !name.ends_with(".sls") && !is_template {
        return Vec::new();
    }
    let is_trusted = |grain: &str| trusted.contains(grain);
    match parts.renderers.lint(name, &text) {
        Ok(findings) => findings
            .into_iter()
            .filter(|found| !found.grain.as_deref().is_some_and(is_trusted))
            .map(|found| format!("{}:{}: {}", found.line, found.column, found.message))
            .collect(),
        Err(error) => vec![error.to_string()],
    }
}
