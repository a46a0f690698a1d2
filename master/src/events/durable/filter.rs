//! Filters over the tags of events.

use saline_messages::{EventTag, JobEvent};
use saline_targeting::{Glob, PatternError};

/// The tags of the events that are to be kept: globs of which one matches. A `*` crosses `/`. The tag by which a minion fired an
/// event counts as well.
#[derive(Debug, Clone, Default)]
pub(crate) struct TagFilter(Vec<Glob>);

impl TagFilter {
    /// Compiles globs.
    ///
    /// # Errors
    /// When one is no glob.
    pub(crate) fn compile(globs: &[String]) -> Result<Self, PatternError> {
        let globs: Result<_, _> = globs.iter().map(|glob| Glob::compile(glob)).collect();
        globs.map(Self)
    }

    /// Creates the filter that matches what one of these globs matches.
    pub(crate) fn of(globs: Vec<Glob>) -> Self {
        Self(globs)
    }

    /// Whether no tag matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of the globs matches the tag, or the one by which a minion fired the event.
    pub(crate) fn matches(&self, tag: &str) -> bool {
        let either = |glob: &Glob| {
            let own = EventTag::chosen_by_minion(tag);
            glob.matches(tag) || own.is_some_and(|own| glob.matches(own))
        };
        self.0.iter().any(either)
    }
}

/// The tags of the events that destinations outside of the master get: those that `wanted` matches, but for those that `left_out`
/// matches. If `wanted` is empty, it is as if it matched all but those of runs and batches, each of which may have much data.
#[derive(Debug, Clone)]
pub(crate) struct ReturnedTags {
    wanted: TagFilter,
    left_out: TagFilter,
}

impl ReturnedTags {
    pub(crate) fn new(wanted: TagFilter, left_out: TagFilter) -> Self {
        Self { wanted, left_out }
    }

    /// Whether an event with this tag is delivered.
    pub(crate) fn matches(&self, tag: &str) -> bool {
        let is_wanted = match self.wanted.is_empty() {
            true => !is_in_job_store(tag) || is_read_from_job_store(tag),
            false => self.wanted.matches(tag) && !is_progress_of_job(tag),
        };
        is_wanted && !self.left_out.matches(tag)
    }
}

/// Whether an event with this tag tells of a change of a job other than its publication and its returns.
fn is_progress_of_job(tag: &str) -> bool {
    matches!(EventTag::parse(tag), Some(EventTag::Job(..))) && !is_read_from_job_store(tag)
}

/// Whether the job store has what an event with this tag reports, so that it is not kept once more.
pub(super) fn is_in_job_store(tag: &str) -> bool {
    matches!(
        EventTag::parse(tag),
        Some(EventTag::Job(..) | EventTag::Batch(..) | EventTag::Run(..))
    )
}

/// Whether readers get an event with this tag from the job store.
pub(super) fn is_read_from_job_store(tag: &str) -> bool {
    matches!(
        EventTag::parse(tag),
        Some(EventTag::Job(_, JobEvent::New | JobEvent::Returned(_)))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_tags_are_also_those_that_minions_chose() {
        let globs = |globs: &[&str]| {
            let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
            TagFilter::compile(&globs).unwrap()
        };
        let returned = ReturnedTags::new(globs(&["my/*"]), globs(&["my/noise*"]));
        for (tag, is_returned) in [
            ("salt/minion/web1/my/x", true),
            ("my/x", true),
            ("salt/minion/web1/my/noise/1", false),
            ("salt/minion/web1/other", false),
            // A minion that fires `salt/job/…` does not pass for the master.
            ("salt/minion/web1/salt/my/x", false),
        ] {
            assert_eq!(returned.matches(tag), is_returned, "{tag}");
        }
        let no_jobs = ReturnedTags::new(TagFilter::default(), globs(&["salt/job/*"]));
        assert!(no_jobs.matches("salt/minion/web1/salt/job/1"));
    }

    #[test]
    fn runs_and_batches_are_returned_where_they_are_asked_for() {
        let globs = |globs: &[&str]| {
            let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
            TagFilter::compile(&globs).unwrap()
        };
        let all = ReturnedTags::new(TagFilter::default(), TagFilter::default());
        let asked_for = ReturnedTags::new(globs(&["salt/*"]), globs(&["salt/run/*/progress"]));
        for (tag, is_in_all, is_asked_for) in [
            ("salt/auth", true, true),
            ("salt/job/20261121091409931549/new", true, true),
            ("salt/job/20261121091409931549/ret/web1", true, true),
            ("salt/job/20261121091409931549/start/web1", false, false),
            ("salt/run/20261121091409931549/new", false, true),
            ("salt/run/20261121091409931549/ret", false, true),
            ("salt/run/20261121091409931549/progress", false, false),
            ("salt/wheel/20261121091409931549/ret", false, true),
            ("salt/batch/20261121091409931549/complete", false, true),
            ("myco/deploy", true, false),
        ] {
            assert_eq!(all.matches(tag), is_in_all, "{tag}");
            assert_eq!(asked_for.matches(tag), is_asked_for, "{tag}");
        }
    }
}
