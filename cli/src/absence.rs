//! Texts about a minion that did not return.

use saline_client::Absence;
use saline_messages::{Jid, MasterTime};

use crate::dates::utc;

/// The command that looks a job up later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LookUp {
    /// The job.
    pub(crate) jid: Jid,
    /// The options of the command: the configuration folder, if it is not the default.
    pub(crate) options: String,
}

impl LookUp {
    /// Returns Salt's sentence and the command.
    pub(crate) fn hint(&self) -> String {
        format!(
            "To look up the return data for this job later, run the following command:\n\n{}",
            self.command()
        )
    }

    /// Returns the commands that keep minions from beginning the job, and end it where it runs.
    pub(crate) fn commands_to_stop(&self) -> [String; 2] {
        let Self { jid, options } = self;
        [
            format!("saline-run jobs.cancel {jid}{options}"),
            format!("saline '*' saltutil.term_job {jid}{options}"),
        ]
    }

    /// Returns the command.
    pub(crate) fn command(&self) -> String {
        format!("saline-run jobs.lookup_jid {}{}", self.jid, self.options)
    }
}

/// Returns the first line, which is Salt's, with the reason in brackets.
pub(crate) fn line(absence: Absence) -> String {
    let mut name = absence.name().to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!("Minion did not return. [{name}]")
}

/// Returns the whole text: the meaning of the state, whether a return may still come and until
/// when, and how to look it up.
pub(crate) fn text(absence: Absence, expires: MasterTime, look_up: &LookUp) -> String {
    let line = line(absence);
    let until = utc(expires);
    let hint = look_up.hint();
    match absence {
        Absence::NotConnected => line,
        Absence::Queued => format!(
            "{line}\nThe minion may begin the job when it connects, until {until}, and will return upon completion. {hint}"
        ),
        Absence::Waiting => format!(
            "{line}\nThe job is a batch, and the minion's turn has not come. The master goes on with the batch until {until}. {hint}"
        ),
        Absence::Running => format!(
            "{line}\nThe minion is running the job, and will return upon completion. {hint}"
        ),
        Absence::NoResponse => format!(
            "{line}\nThe minion began the job and was not heard of since. It will return when it is back. {hint}"
        ),
        Absence::PlannedEnd => format!(
            "{line}\nThe machine of the minion reboots or shuts down, as was planned. The minion goes on with the job, or returns what became of it, when it is back. {hint}"
        ),
        Absence::Disputed => format!(
            "{line}\nThe minion began the job, and the machine that is connected as this minion now does not know the job: its disk was emptied or replaced, or it is another machine with the same key. What the job started may go on where it began, and returns when that machine connects; look there before you run it again. {hint}"
        ),
        Absence::Declined => format!("{line}\nThe minion does not match the target."),
        Absence::Expired => format!(
            "{line}\nThe minion did not begin before the job expired at {until}, and will not run it."
        ),
        Absence::Unconfirmed { since } => {
            let since = since.map_or_else(String::new, |since| {
                format!(
                    " It has reported on the jobs that expired until {}.",
                    utc(since)
                )
            });
            format!(
                "{line}\nThe job expired at {until}, and the minion has not said whether it began it.{since} If it did, it will return when it is back. {hint}"
            )
        }
        Absence::LostTrack => format!(
            "{line}\nThe minion began the job and no longer knows it, as after a loss of its disk. No return will come, and a command of the job may go on; look at the minion before you run it again."
        ),
        Absence::MayHaveRun => format!(
            "{line}\nNobody can tell whether the minion began the job: its machine lost power, its disk was restored, replaced or copied, or the master's job store was put back from a copy. It will not run the job now; look at the minion before you run it again."
        ),
        Absence::Cancelled => {
            format!("{line}\nThe job was cancelled before the minion began, and will not run.")
        }
        Absence::Withdrawn => format!(
            "{line}\nThe minion's key was deleted or rejected before it returned, or the job was queued by an earlier identity of the master that the minions do not follow. No return will be taken."
        ),
        Absence::ReturnedAndLost => format!(
            "{line}\nThe minion returned, and the return is lost: the job store was restored from an older copy."
        ),
        Absence::NoKey => {
            format!("{line}\nNo minion of this name is known to the master: no key has it.")
        }
        Absence::NotDelivered => {
            format!("{line}\nThe return is stored, and did not reach this command in time. {hint}")
        }
        Absence::Offered => format!(
            "{line}\nThe minion was offered the job and has not said that it began. It may still begin the job until {until}, and will return upon completion. {hint}"
        ),
        // `Absence` is non-exhaustive.
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_absence_says_what_may_still_come() {
        let look_up = LookUp {
            jid: Jid::parse("20261121091841717259").unwrap(),
            options: String::new(),
        };
        let all = [
            Absence::Offered,
            Absence::NotConnected,
            Absence::NoResponse,
            Absence::PlannedEnd,
            Absence::Disputed,
            Absence::Running,
            Absence::Queued,
            Absence::Waiting,
            Absence::Declined,
            Absence::Expired,
            Absence::Unconfirmed {
                since: Some(1_795_252_724_000),
            },
            Absence::LostTrack,
            Absence::MayHaveRun,
            Absence::Cancelled,
            Absence::Withdrawn,
            Absence::ReturnedAndLost,
            Absence::NoKey,
            Absence::NotDelivered,
        ]
        .map(|absence| text(absence, 1_795_252_784_000, &look_up))
        .join("\n===\n");
        insta::assert_snapshot!(all, @"
        Minion did not return. [Offered]
        The minion was offered the job and has not said that it began. It may still begin the job until 2026-11-21 09:19:44 UTC, and will return upon completion. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091841717259
        ===
        Minion did not return. [Not connected]
        ===
        Minion did not return. [No response]
        The minion began the job and was not heard of since. It will return when it is back. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091841717259
        ===
        Minion did not return. [Rebooting (planned)]
        The machine of the minion reboots or shuts down, as was planned. The minion goes on with the job, or returns what became of it, when it is back. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091841717259
        ===
        Minion did not return. [Disputed]
        The minion began the job, and the machine that is connected as this minion now does not know the job: its disk was emptied or replaced, or it is another machine with the same key. What the job started may go on where it began, and returns when that machine connects; look there before you run it again. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091841717259
        ===
        Minion did not return. [Running]
        The minion is running the job, and will return upon completion. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091841717259
        ===
        Minion did not return. [Queued]
        The minion may begin the job when it connects, until 2026-11-21 09:19:44 UTC, and will return upon completion. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091841717259
        ===
        Minion did not return. [Waiting]
        The job is a batch, and the minion's turn has not come. The master goes on with the batch until 2026-11-21 09:19:44 UTC. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091841717259
        ===
        Minion did not return. [Declined]
        The minion does not match the target.
        ===
        Minion did not return. [Expired]
        The minion did not begin before the job expired at 2026-11-21 09:19:44 UTC, and will not run it.
        ===
        Minion did not return. [Unconfirmed]
        The job expired at 2026-11-21 09:19:44 UTC, and the minion has not said whether it began it. It has reported on the jobs that expired until 2026-11-21 09:18:44 UTC. If it did, it will return when it is back. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091841717259
        ===
        Minion did not return. [Lost track]
        The minion began the job and no longer knows it, as after a loss of its disk. No return will come, and a command of the job may go on; look at the minion before you run it again.
        ===
        Minion did not return. [May have run]
        Nobody can tell whether the minion began the job: its machine lost power, its disk was restored, replaced or copied, or the master's job store was put back from a copy. It will not run the job now; look at the minion before you run it again.
        ===
        Minion did not return. [Cancelled]
        The job was cancelled before the minion began, and will not run.
        ===
        Minion did not return. [Withdrawn]
        The minion's key was deleted or rejected before it returned, or the job was queued by an earlier identity of the master that the minions do not follow. No return will be taken.
        ===
        Minion did not return. [Returned and lost]
        The minion returned, and the return is lost: the job store was restored from an older copy.
        ===
        Minion did not return. [No key]
        No minion of this name is known to the master: no key has it.
        ===
        Minion did not return. [Return not delivered]
        The return is stored, and did not reach this command in time. To look up the return data for this job later, run the following command:

        saline-run jobs.lookup_jid 20261121091841717259
        ");
    }
}
