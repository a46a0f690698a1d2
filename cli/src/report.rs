//! The report of a job that `saline` prints, and its exit code.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use saline_client::{Absence, Absent, MinionReturn, Progress};
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::{Batch, MasterTime, MinionId};

use crate::absence::{self, LookUp};
use crate::dates::utc;
use crate::names::listed;
use crate::output::{Format, Style, docs, no_return};
use crate::screen::Screen;
use crate::{batch_report, exit};

/// The options of a report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportOptions {
    /// The output format.
    pub(crate) format: Format,
    /// The output style.
    pub(crate) style: Style,
    /// Whether to print everything at the end, sorted.
    pub(crate) as_group: bool,
    /// Whether the returns are documentation, which is printed at the end, once for all minions that have
    /// the same; to programs as one mapping.
    pub(crate) documentation: bool,
    /// Whether the minions that did not return are only counted.
    pub(crate) hide_absent: bool,
    /// The heartbeat interval. The master gives a minion of a batch that is gone two of them to come back.
    pub(crate) heartbeat: Duration,
    /// Whether to print how many minions returned, did not return and failed.
    pub(crate) summary: bool,
}

/// A report, printed as progress comes in.
#[derive(Debug)]
pub(crate) struct Report {
    options: ReportOptions,
    group: Vec<(String, Value)>,
    absent: Vec<Absent>,
    returned: HashSet<MinionId>,
    /// The minions that failed, with their retcodes.
    failed: Vec<(String, i64)>,
    /// Whether documentation was asked for, and no function has the name.
    knows_nothing: bool,
}

impl Report {
    pub(crate) fn new(options: ReportOptions) -> Self {
        Self {
            options,
            group: Vec::new(),
            absent: Vec::new(),
            returned: HashSet::new(),
            failed: Vec::new(),
            knows_nothing: false,
        }
    }

    /// Takes a piece of progress. Prints returns at once, and keeps absent minions for the end.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(crate) fn take(&mut self, screen: &mut Screen<'_>, progress: Progress) -> io::Result<()> {
        match progress {
            Progress::Returned(answer) => self.returned(screen, answer),
            Progress::Absent(absent) => {
                self.absent.push(absent);
                Ok(())
            }
            Progress::HeldUp {
                minions,
                within,
                in_turns,
            } => {
                if !self.options.hide_absent {
                    // As long as it takes until the master goes on without them, and this command too.
                    let turns = in_turns.then_some(self.options.heartbeat * 2);
                    let within = within.max(turns).unwrap_or_default();
                    screen.note(waiting_for_gone(&minions, within));
                }
                Ok(())
            }
            Progress::Busy(minions) => {
                if !self.options.hide_absent {
                    screen.note(waiting_for_busy(&minions));
                }
                Ok(())
            }
            // `Progress` is non-exhaustive; other kinds print nothing.
            _ => Ok(()),
        }
    }

    fn returned(&mut self, screen: &mut Screen<'_>, answer: MinionReturn) -> io::Result<()> {
        self.returned.insert(answer.minion.clone());
        let name = answer.minion.to_string();
        if answer.failed() {
            self.failed.push((name.clone(), answer.retcode));
        }
        // It came after it had been given up.
        self.absent.retain(|absent| absent.name != name);
        if self.options.as_group || self.options.documentation {
            self.group.push((name, answer.value));
            return Ok(());
        }
        let failed = answer.retcode != 0;
        let data = Value::Map(vec![(name, answer.value)]);
        self.print(screen, &data, failed)
    }

    fn print(&self, screen: &mut Screen<'_>, data: &Value, failed: bool) -> io::Result<()> {
        match self.options.format.render(data, self.options.style, failed) {
            Some(text) => screen.line(text),
            None => Ok(()),
        }
    }

    /// Prints the rest, and returns the exit code.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(crate) fn finish(
        mut self,
        screen: &mut Screen<'_>,
        expires: MasterTime,
        look_up: &LookUp,
    ) -> io::Result<u8> {
        let absent = self.print_rest(screen, expires, look_up)?;
        let targeted = self.returned.len() + absent.len();
        if self.options.summary {
            self.print_summary(screen, absent.len())?;
        }
        if !self.failed.is_empty() {
            self.failed.sort();
            let failed = self.failed.iter().map(|(name, retcode)| match retcode {
                0 => name.clone(),
                retcode => format!("{name} ({retcode})"),
            });
            let failed: Vec<String> = failed.collect();
            screen.note(format!(
                "ERROR: {} of {targeted} failed: {}",
                failed.len(),
                listed(&failed)
            ));
        }
        // That the job waits for those that are away was ordered, with --ttl.
        let (queued, absent): (Vec<Absent>, Vec<Absent>) = absent
            .into_iter()
            .partition(|absent| absent.absence == Absence::Queued);
        if !queued.is_empty() {
            let named: Vec<String> = queued.iter().map(|queued| queued.name.clone()).collect();
            screen.note(format!(
                "{} of {targeted} queued until {}: {}",
                queued.len(),
                utc(expires),
                listed(&named)
            ));
        }
        if !absent.is_empty() {
            let named = absent
                .iter()
                .map(|Absent { name, absence }| format!("{name} ({})", absence.name()));
            screen.note(format!(
                "ERROR: {} of {targeted} did not return: {}",
                absent.len(),
                listed(&named.collect::<Vec<_>>())
            ));
        }
        match self.failed.is_empty() && absent.is_empty() && !self.knows_nothing {
            true => Ok(exit::GOOD),
            false => Ok(exit::FAILED),
        }
    }

    /// Prints Salt's summary.
    fn print_summary(&self, screen: &mut Screen<'_>, absent: usize) -> io::Result<()> {
        let line = "-".repeat(43);
        let returned = self.returned.len();
        screen.prose(
            self.options.format.is_for_programs(),
            &format!(
                "\n\n{line}\nSummary\n{line}\n# of minions targeted: {}\n# of minions returned: {returned}\n\
                 # of minions that did not return: {absent}\n# of minions with errors: {}\n{line}",
                returned + absent,
                self.failed.len()
            ),
        )
    }

    /// Returns how many minions have returned, and how many of these failed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.returned.len(), self.failed.len())
    }

    /// Returns what is said of a batch that a failure has halted; none for another one.
    pub(crate) fn halted(&self, batch: &Batch) -> Option<String> {
        let left = self
            .absent
            .iter()
            .filter(|absent| absent.absence == Absence::Cancelled)
            .count();
        (left > 0).then(|| {
            let failed = self.failed.first().filter(|_| batch.failhard);
            batch_report::halted(failed, left)
        })
    }

    /// Returns those of `minions` that have neither returned nor been reported as absent, in their
    /// order.
    pub(crate) fn unanswered<'a>(
        &self,
        minions: impl Iterator<Item = &'a MinionId>,
    ) -> Vec<&'a MinionId> {
        let absent: HashSet<&str> = self.absent.iter().map(|a| a.name.as_str()).collect();
        minions
            .filter(|id| !self.returned.contains(*id) && !absent.contains(id.as_str()))
            .collect()
    }

    /// Prints the rest of an interrupted report.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(crate) fn interrupt(
        mut self,
        screen: &mut Screen<'_>,
        expires: MasterTime,
        look_up: &LookUp,
    ) -> io::Result<()> {
        self.print_rest(screen, expires, look_up).map(|_| ())
    }

    /// Prints what was kept for the end. Returns the absent minions.
    fn print_rest(
        &mut self,
        screen: &mut Screen<'_>,
        expires: MasterTime,
        look_up: &LookUp,
    ) -> io::Result<Vec<Absent>> {
        let nobody_returned = self.returned.is_empty();
        let has_empty_output = self.options.format.says_nothing_as_empty_mapping();
        self.group.sort_by(|a, b| a.0.cmp(&b.0));
        if self.options.documentation {
            self.print_documentation(screen)?;
        } else if self.options.as_group && (!nobody_returned || has_empty_output) {
            let data = Value::Map(std::mem::take(&mut self.group));
            self.print(screen, &data, !self.failed.is_empty())?;
        } else if nobody_returned && has_empty_output {
            self.print(screen, &Value::Map(vec![]), false)?;
        }
        let absent = self.take_absent();
        if !self.options.hide_absent {
            for Absent { name, absence } in &absent {
                self.print_absent(screen, name, *absence, expires, look_up)?;
            }
        }
        Ok(absent)
    }

    /// Prints the documentation that minions returned, once for all that have the same.
    fn print_documentation(&mut self, screen: &mut Screen<'_>) -> io::Result<()> {
        let returns = std::mem::take(&mut self.group);
        let is_empty = |(_, value): &(String, Value)| *value == Value::Map(Vec::new());
        self.knows_nothing = !returns.is_empty() && returns.iter().all(is_empty);
        if self.knows_nothing {
            screen.note(docs::NOTHING);
        }
        if self.options.format.is_for_programs() {
            let (data, lines) = docs::merged(&returns);
            for line in lines {
                screen.note(line);
            }
            return self.print(screen, &data, false);
        }
        match docs::render(&returns, self.options.style) {
            text if text.is_empty() => Ok(()),
            text => screen.line(text),
        }
    }

    /// Takes the absent minions to be reported. Minions that declined were not targeted after all:
    /// they count only if no other minion was.
    fn take_absent(&mut self) -> Vec<Absent> {
        let mut absent = std::mem::take(&mut self.absent);
        let somebody_was_meant =
            !self.returned.is_empty() || absent.iter().any(|a| a.absence != Absence::Declined);
        if somebody_was_meant {
            absent.retain(|a| a.absence != Absence::Declined);
        }
        absent.sort_by(|a, b| a.name.cmp(&b.name));
        absent
    }

    fn print_absent(
        &self,
        screen: &mut Screen<'_>,
        name: &str,
        absence: Absence,
        expires: MasterTime,
        look_up: &LookUp,
    ) -> io::Result<()> {
        match self.options.format {
            format if !format.is_for_programs() => {
                let text = absence::text(absence, expires, look_up);
                screen.line(no_return::render(name, &text, self.options.style))
            }
            Format::Quiet => Ok(()),
            // Beside the data, in one line.
            _ => {
                let (name, line) = (escape_line(name), absence::line(absence));
                screen.note(match absence {
                    Absence::Offered
                    | Absence::NoResponse
                    | Absence::PlannedEnd
                    | Absence::Disputed
                    | Absence::Running
                    | Absence::Queued
                    | Absence::Waiting
                    | Absence::Unconfirmed { .. } => {
                        format!("{name}: {line} ({})", look_up.command())
                    }
                    _ => format!("{name}: {line}"),
                });
                Ok(())
            }
        }
    }
}

/// Returns the line about minions that are gone and may come back.
fn waiting_for_gone(minions: &[MinionId], within: Duration) -> String {
    let named: Vec<String> = minions.iter().map(MinionId::to_string).collect();
    format!(
        "Waiting up to {} s for minions that are gone and may come back: {}",
        within.as_secs_f64().ceil(),
        listed(&named)
    )
}

/// Returns the line about minions that run so many jobs that this one waits there.
fn waiting_for_busy(minions: &[MinionId]) -> String {
    let named: Vec<String> = minions.iter().map(MinionId::to_string).collect();
    format!(
        "Waiting for minions that run as many other jobs as process_count_max allows: {}",
        listed(&named)
    )
}

/// Reports that no minion matched the target `expression`, or none of those that are present, and nothing was published.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn nobody_matched(
    screen: &mut Screen<'_>,
    format: Format,
    expression: &str,
    of_present: bool,
) -> io::Result<u8> {
    let who = match of_present {
        true => "No connected minions match",
        false => "No minions match",
    };
    if format.says_nothing_as_empty_mapping() {
        screen.line("{}")?;
    }
    screen.note(format!("ERROR: {who} '{}'.", escape_line(expression)));
    Ok(exit::NOBODY)
}

#[cfg(test)]
mod tests;
