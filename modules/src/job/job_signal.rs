//! Signals that one job sends to another.

use std::fmt;

use rustix::io::Errno;
use rustix::process::Signal;
use saline_messages::Jid;

/// The signals that can be named. Others are given as numbers.
const NAMES: [(&str, Signal); 9] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("KILL", Signal::KILL),
    ("TERM", Signal::TERM),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
];

/// Parses the number or the name of a signal; a name may begin with `SIG`. Returns none for signal 0
/// and for signals that the C library or the application gives a meaning.
pub fn parse_signal(text: &str) -> Option<Signal> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Signal::from_named_raw(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, signal)| *signal)
}

/// Whether `signal` asks a process to end. Such a signal also ends a job without a process.
pub(super) fn ends_a_job(signal: Signal) -> bool {
    [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::KILL,
        Signal::TERM,
    ]
    .contains(&signal)
}

/// A request to end a job: the signal, and the job and the user that sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The signal.
    pub signal: Signal,
    /// The job that sent the signal.
    pub by: Jid,
    /// The user of that job.
    pub user: String,
}

impl Ending {
    /// Returns the retcode of a job that ended because of this: 128 and the number of the signal, as
    /// for a command.
    pub fn retcode(&self) -> i64 {
        128 + i64::from(self.signal.as_raw())
    }
}

impl fmt::Display for Ending {
    /// Writes `killed (SIGKILL) by job 20261121091409931549 of user root`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.signal {
            Signal::KILL => "killed",
            _ => "terminated",
        };
        write!(f, "{verb} (")?;
        match NAMES.iter().find(|(_, signal)| *signal == self.signal) {
            Some((name, _)) => write!(f, "SIG{name}")?,
            None => write!(f, "signal {}", self.signal.as_raw())?,
        }
        write!(f, ") by job {} of user {}", self.by, self.user)
    }
}

/// The effect of a signal on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalEffect {
    /// The process group of the job's command received the signal; its leader has this pid.
    Sent(u32),
    /// The job's command is being started, and receives the signal then.
    SentAtStart,
    /// The job waited for a thread, and will not begin.
    NotBegun,
    /// The job's function waited, and was interrupted.
    Interrupted,
    /// The job's function is computing. It ends if it comes to wait or to run a command.
    Noted,
    /// The job has no process, and the signal is none that ends a job.
    NoProcess,
    /// The job's process has ended without this signal.
    HasEnded,
    /// The job's process with this pid did not answer. It may still carry the signal out.
    Unanswered(u32),
    /// The system refused to send the signal to the process group with this leader.
    Refused(u32, Errno),
}

impl fmt::Display for SignalEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent(pid) => write!(f, "sent to the process group of pid {pid}"),
            Self::SentAtStart => f.write_str("its command receives it at its start"),
            Self::NotBegun => f.write_str("the job will not begin"),
            Self::Interrupted => f.write_str("its wait was interrupted"),
            Self::Noted => f.write_str("noted, its function is computing"),
            Self::NoProcess => f.write_str("it has no process"),
            Self::HasEnded => f.write_str("the job has ended"),
            Self::Unanswered(pid) => write!(f, "process {pid} did not answer"),
            Self::Refused(pid, error) => write!(f, "not sent to pid {pid}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_numbers_and_names() {
        assert_eq!(parse_signal("15"), Some(Signal::TERM));
        assert_eq!(parse_signal("SIGKILL"), Some(Signal::KILL));
        assert_eq!(parse_signal("usr1"), Some(Signal::USR1));
        for bad in ["0", "-9", "34", "1000", "", "SIG", "KILLS"] {
            assert_eq!(parse_signal(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_ending_names_the_signal_the_job_and_the_user() {
        let ending = |signal| Ending {
            signal,
            by: Jid::parse("20261121091409931549").unwrap(),
            user: "root".to_owned(),
        };
        let shown = [Signal::KILL, Signal::TERM].map(|signal| ending(signal).to_string());
        assert_eq!(
            shown,
            [
                "killed (SIGKILL) by job 20261121091409931549 of user root",
                "terminated (SIGTERM) by job 20261121091409931549 of user root",
            ]
        );
        assert_eq!(ending(Signal::KILL).retcode(), 137);
    }
}
