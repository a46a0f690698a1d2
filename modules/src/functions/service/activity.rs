//! Starts and stops units.

use std::time::Duration;

use saline_data::Value;
use saline_functions::{Failure, function};

use super::old_and_new;
use super::systemd::{FileVerb, Systemd, UnitState, Verb, ask};
use super::unit_name::UnitName;
use crate::command::Command;
use crate::{JobContext, Outcome};

/// How long journalctl may take to find the last lines of a unit.
const TIME_FOR_JOURNAL: Duration = Duration::from_secs(20);

/// Starts a service. Returns `True` if it runs; a service whose process lasts is watched for some seconds first. Otherwise
/// the retcode is 1, and the return has the reason as `comment` and the last lines of its journal as `journal`.
///
/// name
///     The name of a unit; without a suffix, that of a service.
///
/// no_block
///     `True` returns as soon as systemd has begun, whatever comes of it.
///
/// unmask
///     `True` unmasks the service before.
///
/// watch
///     The number of seconds for which the service is watched after its start. 0 returns at once.
///
/// test
///     `True` returns which state would change, as `{unit: {old, new}}`, and changes nothing.
///
/// CLI Example:
///
///     saline '*' service.start nginx
#[function(changes)]
pub(super) fn start(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] no_block: bool,
    #[default(false)] unmask: bool,
    #[default(5)] watch: Duration,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    Change {
        verb: Verb::Start,
        unit: name,
        no_block,
        unmask,
        watch,
        test,
    }
    .run(job)
}

/// Stops a service. Returns `True` once it has stopped. The parameters and the return are those of `service.start`.
///
/// CLI Example:
///
///     saline '*' service.stop nginx
#[function(changes)]
pub(super) fn stop(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] no_block: bool,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    Change::of(Verb::Stop, name, no_block, test).run(job)
}

/// Stops a service if it runs, and starts it. The parameters and the return are those of `service.start`.
///
/// CLI Example:
///
///     saline '*' service.restart nginx
#[function(changes)]
pub(super) fn restart(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] no_block: bool,
    #[default(false)] unmask: bool,
    #[default(5)] watch: Duration,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    Change {
        verb: Verb::Restart,
        unit: name,
        no_block,
        unmask,
        watch,
        test,
    }
    .run(job)
}

/// Lets a service read its configuration again. The parameters and the return are those of `service.start`.
///
/// CLI Example:
///
///     saline '*' service.reload nginx
#[function(changes)]
pub(super) fn reload(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] no_block: bool,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    Change::of(Verb::Reload, name, no_block, test).run(job)
}

/// A change of the activity of a unit.
struct Change {
    verb: Verb,
    unit: UnitName,
    no_block: bool,
    unmask: bool,
    watch: Duration,
    test: bool,
}

impl Change {
    fn of(verb: Verb, unit: UnitName, no_block: bool, test: bool) -> Self {
        Self {
            verb,
            unit,
            no_block,
            unmask: false,
            watch: Duration::ZERO,
            test,
        }
    }

    fn run(&self, job: &JobContext<'_>) -> Result<Outcome, Failure> {
        if self.test {
            let before = ask(job, false, async |systemd| systemd.state(&self.unit).await)?;
            return Ok(Outcome::from(self.would_change(&before)));
        }
        let failed = ask(job, true, async |systemd| self.failure(systemd).await)?;
        match failed {
            None => Ok(Outcome::from(true)),
            Some(why) => {
                let report = [
                    ("comment", Value::from(why)),
                    ("journal", Value::texts(last_lines(job, &self.unit)?)),
                    ("result", Value::Bool(false)),
                ];
                Ok(Outcome::new(Value::map(report), 1))
            }
        }
    }

    /// Changes the unit. Returns why it failed, if it did.
    async fn failure(&self, systemd: &Systemd) -> Result<Option<String>, Failure> {
        if self.unmask {
            let no_longer = FileVerb::Unmask;
            systemd.change_files(no_longer, &self.unit, false).await?;
        }
        let before = systemd.state(&self.unit).await?;
        let ended = systemd
            .change(self.verb, &self.unit, !self.no_block)
            .await?;
        if ended != "done" {
            let state = systemd.state(&self.unit).await?;
            return Ok(Some(self.comment(&state, &ended)));
        }
        let starts = match self.verb {
            Verb::Start => !before.is_active(),
            Verb::Restart => true,
            Verb::Stop | Verb::Reload => false,
        };
        if self.no_block || !starts {
            return Ok(None);
        }
        let (state, has_failed) = systemd.watch(&self.unit, &before, self.watch).await?;
        Ok(has_failed.then(|| self.comment(&state, "failed soon after its start")))
    }

    fn comment(&self, state: &UnitState, ended: &str) -> String {
        let Change { verb, unit, .. } = self;
        let verb = format!("{verb:?}").to_lowercase();
        let (active, sub, result) = (&state.active, &state.sub, &state.result);
        format!("{verb} of {unit}: {ended}; it is {active} ({sub}), with the result {result:?}")
    }

    fn would_change(&self, before: &UnitState) -> Value {
        let new = match self.verb {
            Verb::Stop => "inactive",
            Verb::Start | Verb::Restart | Verb::Reload => "active",
        };
        let is_so = match self.verb {
            Verb::Start => before.is_active(),
            Verb::Stop => matches!(&*before.active, "inactive" | "failed"),
            Verb::Restart | Verb::Reload => false,
        };
        old_and_new(&self.unit, &before.active, new, is_so)
    }
}

/// Returns the last lines of a unit in the journal, or why there are none.
fn last_lines(job: &JobContext<'_>, unit: &UnitName) -> Result<Vec<String>, Failure> {
    let words = [
        "journalctl",
        "-u",
        unit.as_str(),
        "-n",
        "20",
        "--no-pager",
        "-o",
        "short-iso",
    ];
    let read = job.run(&Command {
        argv: words.map(str::to_owned).into(),
        timeout: Some(TIME_FOR_JOURNAL),
        merged: true,
        ..Command::default()
    });
    let finished = match read {
        Ok(finished) => finished,
        Err(Failure::Execution(why)) => return Ok(vec![why]),
        Err(other) => return Err(other),
    };
    let bytes = finished
        .stdout
        .into_bytes()
        .unwrap_or_else(String::into_bytes);
    Ok(String::from_utf8_lossy(&bytes)
        .lines()
        .map(str::to_owned)
        .collect())
}
