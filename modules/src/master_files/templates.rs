//! Templates that the master serves, rendered on the minion.

use std::sync::atomic::{AtomicU64, Ordering};

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mapping, Mismatch};
use saline_messages::{FilePlace, FileRefusal, FileReply, FileRequest};
use saline_render::{Document, File, Files, MAX_FILE, Request};
use serde::{Deserialize, Serialize};

use super::{FileCache, fetch};
use crate::JobContext;

/// A template engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TemplateEngine {
    /// Jinja, as `saline-render` has it.
    Jinja,
}

impl FromValue for TemplateEngine {
    const TAKES: &'static str = "jinja, the one template engine";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value.as_str() {
            Some("jinja") => Ok(Self::Jinja),
            _ => Err(Mismatch::of::<Self>(&value)),
        }
    }
}

/// Renders a template of the master to a text. It sees the grains, the options and the name of the environment, and these
/// variables; it may include and import files of its environment.
///
/// # Errors
/// When the master does not have it or is away for long, and when it cannot be rendered.
pub(crate) fn render(
    job: &JobContext<'_>,
    place: &FilePlace,
    variables: Mapping,
) -> Result<String, Failure> {
    let templates = MasterTemplates {
        job,
        cache: FileCache::open(&job.host.cache_dir)?,
        environment: &place.environment,
    };
    // Before the time of the rendering begins, of which a large file would take much.
    fetch::fetch(job, &templates.cache, place)?;
    let request = Request {
        name: place.path.clone(),
        document: Document::Text,
        variables: all_variables(job, &place.environment, variables)?,
    };
    let renderers = &job.host.renderers;
    let rendered = renderers.render(&templates, templates.state(), &request);
    match rendered {
        Ok(Value::Text(text)) => Ok(text),
        Ok(_) => Err(Failure::Execution(
            "the template was rendered to something else than a text".to_owned(),
        )),
        Err(error) => Err(Failure::Execution(error.to_string())),
    }
}

/// Returns the variables of a template; those of the operator come before others of the same name.
///
/// # Errors
/// When the minion has no pillar and cannot get it: a template would silently get the defaults for what it asks of it.
fn all_variables(job: &JobContext<'_>, environment: &str, own: Mapping) -> Result<Value, Failure> {
    let pillar = job.host.held_pillar(job.job)?;
    let mut all: Mapping = vec![
        ("grains".to_owned(), (*job.host.grains.all()).clone()),
        ("opts".to_owned(), (*job.host.options()).clone()),
        ("pillar".to_owned(), (*pillar.entries).clone()),
        ("saltenv".to_owned(), Value::from(environment)),
        ("env".to_owned(), Value::from(environment)),
    ];
    all.retain(|(name, _)| !own.iter().any(|(given, _)| given == name));
    all.extend(own);
    Ok(Value::Map(all))
}

/// The templates of an environment, through the cache.
struct MasterTemplates<'a> {
    job: &'a JobContext<'a>,
    cache: FileCache,
    environment: &'a str,
}

impl MasterTemplates<'_> {
    /// Returns another number each time: nobody tells when a file of the master changes.
    fn state(&self) -> u64 {
        let renderings: &AtomicU64 = &self.job.host.renderings;
        renderings.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Files for MasterTemplates<'_> {
    fn read(&self, name: &str) -> Result<Option<File>, String> {
        let place = FilePlace {
            environment: self.environment.to_owned(),
            path: name.to_owned(),
        };
        let looked = self
            .job
            .ask_or_refused(&FileRequest::Look(place.clone()))
            .map_err(|failure| failure.to_string())?;
        if looked == FileReply::Refused(FileRefusal::NoFile) {
            return Ok(None);
        }
        let bytes =
            fetch::read(self.job, &place, MAX_FILE).map_err(|failure| failure.to_string())?;
        let path = format!("salt://{name}");
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(File { path, text })),
            Err(_) => Err(format!("{path} is not a text in UTF-8")),
        }
    }
}
