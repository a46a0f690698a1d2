//! A process of its own, for what measures memory, descriptors or threads: they belong to the whole
//! process, and other requirements run beside it.

use std::io;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::check::check;
use crate::kit::{self, RawAt, SEED};
use crate::{Backend, Failure, Outcome, Requirement, requirements};

/// Which requirement a process was started for.
const REQUIREMENT: &str = "SALINE_CONFORMANCE_REQUIREMENT";

/// Whether its raw connections are inside of the transport's own.
const INSIDE: &str = "SALINE_CONFORMANCE_INSIDE";

/// Where it writes what came of it.
const ANSWER: &str = "SALINE_CONFORMANCE_ANSWER";

/// The text there when the requirement is kept.
const KEPT_TEXT: &str = "kept";

/// Runs what this process was started for on `backend`, if it was started for one requirement, and
/// says whether it was: then the work is done, and the process is to end.
/// [`run_all`](crate::run_all) asks first of all; a [`Backend::process`] of another kind has to.
pub fn answer_if_asked(backend: &Arc<dyn Backend>) -> bool {
    let (Ok(id), Some(path)) = (std::env::var(REQUIREMENT), std::env::var_os(ANSWER)) else {
        return false;
    };
    allow_descriptors();
    let raw_at = match std::env::var_os(INSIDE) {
        Some(_) => RawAt::Pipes,
        None => RawAt::Sockets,
    };
    let outcome = match requirements::all().find(|requirement| requirement.id == id) {
        Some(requirement) => check(backend, requirement, raw_at),
        None => Err(Failure::new(format!("{id} is no requirement"))),
    };
    let text = match outcome {
        Ok(()) => KEPT_TEXT.to_owned(),
        Err(failure) => failure.to_string(),
    };
    if let Err(error) = std::fs::write(&path, text) {
        eprintln!("{}: {error}", PathBuf::from(path).display());
    }
    true
}

/// Runs `requirement` on `backend` in a process of its own, with raw connections at `raw_at`.
pub(crate) fn run(backend: &dyn Backend, requirement: &Requirement, raw_at: RawAt) -> Outcome {
    if std::env::var_os(REQUIREMENT).is_some() {
        return Err(Failure::new(
            "the process that was started for one requirement runs others: Backend::process has to \
             name one that comes to run_all, or to answer_if_asked first of all",
        ));
    }
    let failed = |error| Failure::new(format!("a process of its own: {error}"));
    let (output, answer) = start(backend, requirement, raw_at).map_err(failed)?;
    match answer.as_deref() {
        Some(KEPT_TEXT) => Ok(()),
        Some(text) => Err(Failure::new(text)),
        None => Err(Failure::new(format!(
            "its process ended with {} and said nothing of it:\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

fn start(
    backend: &dyn Backend,
    requirement: &Requirement,
    raw_at: RawAt,
) -> io::Result<(Output, Option<String>)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("answer");
    let mut process = backend.process()?;
    if raw_at == RawAt::Pipes {
        process.env(INSIDE, "1");
    }
    // It ends by itself: what it runs has a watchdog.
    let output = process
        .env(REQUIREMENT, requirement.id)
        .env(ANSWER, &path)
        .env(SEED, kit::seed().to_string())
        .output()?;
    Ok((output, std::fs::read_to_string(path).ok()))
}

fn allow_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    // Where it fails, what needs them fails with the system's own words.
    let _ = setrlimit(Resource::Nofile, limit);
}
