//! Checks files by themselves, for whichever minion they are.

use saline_data::Value;
use saline_render::Document;

use super::files::Files;
use super::{Compiler, Part};
use crate::MAX_ERRORS;

impl Compiler<'_> {
    /// Renders a file that is named at `named`, with what it includes. No other file gives it what it lacks.
    pub(super) fn check_file(&mut self, environment: &str, sls: &str, named: Part<'_>) {
        self.rendered = 0;
        self.again = 0;
        let mut files = Files::new();
        self.named_file(environment, sls, named, &mut files);
        let files = files.into_keys().map(|sls| (environment.to_owned(), sls));
        self.seen.extend(files);
    }

    /// Renders the files that were not seen, neither as top files nor from files that these name.
    pub(super) fn check_others(&mut self) {
        self.is_unreached = true;
        let only = self.options.pillarenv;
        for environment in self.environments.names() {
            if only.is_some_and(|only| environment != only) {
                continue;
            }
            // An error of listing the files has been told with the top file already.
            let names = self
                .environments
                .sls_names(&environment)
                .unwrap_or_default();
            for sls in names {
                if self.errors.len() >= MAX_ERRORS {
                    return;
                }
                if self.seen.contains(&(environment.clone(), sls.clone())) {
                    continue;
                }
                let request =
                    self.request(&environment, &sls, &sls, Document::Pillar, &Value::Null);
                // No file names it.
                let itself = Part {
                    environment: &environment,
                    request: &request,
                    steps: &[],
                };
                self.check_file(&environment, &sls, itself);
            }
        }
    }
}
