//! The one way in which functions change the contents of a file.

use saline_data::Value;
use saline_functions::Failure;

use super::answer::Answer;
use super::backups::{self, Backup};
use super::diff;
use super::path::{AbsolutePath, failed};
use super::place::{LARGEST_FILE, Place};
use super::replacement::put;
use crate::JobContext;

/// How the contents of a file are changed.
pub(super) struct Edit<'a> {
    /// The path; links at its end are followed.
    pub path: &'a AbsolutePath,
    /// Whether the old contents are kept.
    pub backup: Backup,
    /// Whether the answer has a diff.
    pub show_changes: bool,
    /// Whether nothing is written.
    pub test: bool,
}

impl Edit<'_> {
    /// Changes the contents to those that `edited` makes of them (none if there is no file), and returns the answer.
    ///
    /// # Errors
    /// When the file cannot be read or written; then it is as it was.
    pub(super) fn apply(
        &self,
        job: &JobContext<'_>,
        edited: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, Failure>,
    ) -> Result<Value, Failure> {
        let place = Place::followed(self.path)?;
        let mut existing = place.open()?;
        let before = match &mut existing {
            Some(existing) => Some(existing.read(&place.path, LARGEST_FILE)?),
            None => None,
        };
        let after = edited(before.as_deref())?;
        if after.len() as u64 > LARGEST_FILE {
            let why = format!("it would have more than {LARGEST_FILE} bytes");
            return Err(failed("write", &place.path, why));
        }
        let is_changed = before.as_deref() != Some(&after);
        let mut answer = Answer::new(is_changed, self.test);
        if is_changed && self.show_changes {
            let diff = diff::unified(&place.path, before.as_deref(), &after);
            answer.add("diff", diff);
        }
        if is_changed && !self.test {
            if let (Backup::Minion, Some(existing), Some(before)) =
                (self.backup, &existing, &before)
            {
                let kept = backups::keep(&job.host.cache_dir, &place, existing, before)?;
                answer.add("backup", kept.display().to_string());
            }
            put(&place, &after, existing.as_ref(), existing.as_ref())
                .map_err(|why| failed("write", &place.path, why))?;
        }
        Ok(answer.into_value())
    }
}
