//! The report of a job that `saline` prints, and its exit code.

use std::collections::HashSet;
use std::io;

use saline_client::{Absence, Absent, MinionReturn, Progress};
use saline_protocol::message::{Batch, MasterTime, MinionId, Value};
use saline_protocol::printable::escape_line;

use crate::absence::{self, LookUp};
use crate::output::{Format, Style, no_return};
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
}

/// A report, printed as progress comes in.
#[derive(Debug)]
pub(crate) struct Report {
    options: ReportOptions,
    group: Vec<(String, Value)>,
    absent: Vec<Absent>,
    returned: HashSet<MinionId>,
    failed: bool,
    /// The minion that failed first, and its retcode.
    first_failure: Option<(MinionId, i64)>,
}

impl Report {
    pub(crate) fn new(options: ReportOptions) -> Self {
        Self {
            options,
            group: Vec::new(),
            absent: Vec::new(),
            returned: HashSet::new(),
            failed: false,
            first_failure: None,
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
        }
    }

    fn returned(&mut self, screen: &mut Screen<'_>, answer: MinionReturn) -> io::Result<()> {
        self.returned.insert(answer.minion.clone());
        self.failed |= answer.failed();
        if answer.failed() {
            self.first_failure
                .get_or_insert((answer.minion.clone(), answer.retcode));
        }
        let name = answer.minion.to_string();
        // It came after it had been given up.
        self.absent.retain(|absent| absent.name != name);
        if self.options.as_group {
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
        let somebody_is_absent = self.print_rest(screen, expires, look_up)?;
        if self.failed || somebody_is_absent {
            screen.complain("ERROR: Minions returned with non-zero exit code");
            return Ok(exit::FAILED);
        }
        Ok(exit::GOOD)
    }

    /// Returns what is said of a batch that a failure has halted; none for another one.
    pub(crate) fn halted(&self, batch: &Batch) -> Option<String> {
        let left = self
            .absent
            .iter()
            .filter(|absent| absent.absence == Absence::Cancelled)
            .count();
        (batch.failhard && left > 0)
            .then(|| batch_report::halted(self.first_failure.as_ref(), left))
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

    /// Prints what was kept for the end. Returns whether a minion is absent.
    fn print_rest(
        &mut self,
        screen: &mut Screen<'_>,
        expires: MasterTime,
        look_up: &LookUp,
    ) -> io::Result<bool> {
        let nobody_returned = self.returned.is_empty();
        if self.options.as_group && (!nobody_returned || self.options.format == Format::Json) {
            self.group.sort_by(|a, b| a.0.cmp(&b.0));
            let data = Value::Map(std::mem::take(&mut self.group));
            self.print(screen, &data, self.failed)?;
        } else if nobody_returned && self.options.format == Format::Json {
            self.print(screen, &Value::Map(vec![]), false)?;
        }
        let absent = self.take_absent();
        for Absent { name, absence } in &absent {
            self.print_absent(screen, name, *absence, expires, look_up)?;
        }
        Ok(!absent.is_empty())
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
            Format::Nested => {
                let text = absence::text(absence, expires, look_up);
                screen.line(no_return::render(name, &text, self.options.style))
            }
            Format::Quiet => Ok(()),
            // Beside the data, in one line.
            Format::Json | Format::Raw => {
                let (name, line) = (escape_line(name), absence::line(absence));
                screen.complain(match absence {
                    Absence::NoResponse
                    | Absence::Silent
                    | Absence::Running
                    | Absence::Queued
                    | Absence::Waiting
                    | Absence::NoWord { .. } => {
                        format!("{name}: {line} ({})", look_up.command())
                    }
                    _ => format!("{name}: {line}"),
                });
                Ok(())
            }
        }
    }
}

/// Reports that no minion matched, or none of those that are present, and nothing was published.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn nobody_matched(
    screen: &mut Screen<'_>,
    format: Format,
    of_present: bool,
) -> io::Result<u8> {
    let who = match of_present {
        true => "No connected minions matched",
        false => "No minions matched",
    };
    screen.prose(
        format.is_for_programs(),
        &format!("{who} the target. No command was sent, no jid was assigned."),
    )?;
    if format == Format::Json {
        screen.line("{}")?;
    }
    screen.complain("ERROR: No return received");
    Ok(exit::NOBODY)
}

#[cfg(test)]
mod tests;
