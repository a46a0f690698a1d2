//! Scripts that the master serves.

use saline_data::Packed;
use saline_functions::{Failure, Mapping};
use serde::{Deserialize, Serialize};

use super::{SaltUrl, TemplateEngine, fetch, render};
use crate::JobContext;

/// The largest script, in bytes.
pub(crate) const MAX_SCRIPT: usize = 64 * 1024 * 1024;

/// A script of the master, and how it is rendered before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MasterScript {
    url: String,
    environment: Option<String>,
    engine: Option<TemplateEngine>,
    /// The variables of the template.
    context: Packed,
}

impl MasterScript {
    /// Names a script by its URL; the environment counts where the URL has none.
    pub(crate) fn new(
        url: &str,
        environment: Option<&str>,
        engine: Option<TemplateEngine>,
        context: &Mapping,
    ) -> Self {
        Self {
            url: url.to_owned(),
            environment: environment.map(str::to_owned),
            engine,
            context: Packed::pack(&saline_data::Value::Map(context.clone())),
        }
    }

    /// Gets the script from the master, unless the cache has it, and renders it if it is a template.
    ///
    /// # Errors
    /// When the master does not have it or is away for long, and when it cannot be rendered.
    pub(crate) fn read(&self, job: &JobContext<'_>) -> Result<Vec<u8>, Failure> {
        let url = SaltUrl::parse(&self.url).map_err(Failure::Invocation)?;
        let place = url.place(self.environment.as_deref());
        let Some(TemplateEngine::Jinja) = self.engine else {
            return fetch::read(job, &place, MAX_SCRIPT);
        };
        let context = match self.context.unpack() {
            Ok(saline_data::Value::Map(context)) => context,
            _ => Mapping::new(),
        };
        render(job, &place, context).map(String::into_bytes)
    }
}
