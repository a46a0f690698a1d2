//! Compiles the pillar of one minion from all of its sources.

use saline_config::BASE;
use saline_pillar::{Pillar, PillarOptions, Subject};
use saline_targeting::AssignmentError;

use super::PillarWork;
use super::external::{self, Names};

/// The entry of a pillar that has the options of the master which `pillar_opts` names, as in Salt.
const MASTER: &str = "master";

/// The environments that a minion asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AskedEnvironments {
    /// The environment that the request names for itself, `saltenv`; none for `base`.
    pub(crate) saltenv: Option<String>,
    /// The only one of the pillar; none for all.
    pub(crate) pillarenv: Option<String>,
}

impl PillarWork<'_> {
    /// Compiles the pillar, by what root says of the minion alone. Blocks.
    pub(super) fn compile(&self) -> Pillar {
        let found = self.with_options(|subject, options, names| {
            let mut pillar = saline_pillar::compile(subject, options, &self.files);
            let mut warnings = Vec::new();
            for source in &self.settings.pillar.external {
                match external::read(source, self.minion, names, &self.parts.launcher) {
                    Ok(found) => {
                        for entries in found.entries {
                            pillar.merge(entries, options);
                        }
                        warnings.extend(found.warnings);
                    }
                    Err(error) => pillar.errors.push(error),
                }
            }
            // An error is told in the place of a warning.
            if pillar.errors.is_empty() {
                self.warn(&warnings);
            }
            if let Some(shown) = &self.settings.pillar.shown_options {
                pillar.entries.retain(|(name, _)| name != MASTER);
                pillar.entries.push((MASTER.to_owned(), shown.clone()));
            }
            pillar
        });
        found.unwrap_or_else(|error| Pillar {
            entries: Vec::new(),
            errors: vec![error.to_string()],
        })
    }

    /// Tells the log the first of these warnings, once a second at most for a minion.
    fn warn(&self, warnings: &[String]) {
        let Some((first, more)) = warnings.split_first() else {
            return;
        };
        let id = self.minion.id();
        if self.parts.limiter.allows(id) {
            let more = match more.len() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            tracing::warn!("the pillar of minion {id}: {first}{more}");
        }
    }

    /// Returns the files that the top files choose, for each environment, and what is wrong with the top files. Blocks.
    pub(super) fn top(&self) -> (Vec<(String, Vec<String>)>, Vec<String>) {
        let found = self.with_options(|subject, options, _| {
            saline_pillar::chosen_files(subject, options, &self.files)
        });
        found.unwrap_or_else(|error| (Vec::new(), vec![error.to_string()]))
    }

    /// Runs `work` with the minion as its pillar sees it.
    ///
    /// # Errors
    /// When two globs assign two values of one attribute: nobody knows then what the minion is.
    fn with_options<T>(
        &self,
        work: impl FnOnce(Subject<'_>, &PillarOptions<'_>, &Names<'_>) -> T,
    ) -> Result<T, AssignmentError> {
        let root = self.minion.root();
        let names = Names {
            nodegroups: &self.settings.nodegroups,
            assignments: &root.assignments,
            trusted_grains: &root.trusted_grains,
        };
        let assigned = self.minion.assigned()?;
        let options = PillarOptions {
            strategy: self.settings.pillar.strategy,
            merge_lists: self.settings.pillar.merge_lists,
            base: BASE,
            nodegroups: names.nodegroups,
            assignments: names.assignments,
            trusted_grains: names.trusted_grains,
            saltenv: self.asked.saltenv.as_deref(),
            pillarenv: self.asked.pillarenv.as_deref(),
        };
        let subject = Subject {
            id: self.minion.id().as_str(),
            grains: self.minion.grains(),
            assigned: &assigned,
        };
        Ok(work(subject, &options, &names))
    }
}

impl AskedEnvironments {
    /// Whether none is named: the pillar by which targets choose.
    pub(super) fn is_default(&self) -> bool {
        self.saltenv.is_none() && self.pillarenv.is_none()
    }
}
