//! A job of a plan, and how it is published.

use std::fmt;
use std::time::Duration;

use super::command;

/// What a job is recognised by in ledgers, returns and stores, also when nobody was told its jid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token(pub(crate) u32);

/// What stands before a token in the command of a job.
const MARK: &str = "token=";

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{:06}", self.0)
    }
}

impl Token {
    /// Reads a token.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('t')?;
        let whole = digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| whole).map(Self)
    }

    /// Returns the words of a command that it is found by, which set the shell's variable `token`.
    pub(super) fn mark(self) -> String {
        format!("{MARK}{self}")
    }

    /// Finds the token in the arguments of a stored job, however they are packed.
    pub(crate) fn find(bytes: &[u8]) -> Option<Self> {
        let at = bytes
            .windows(MARK.len())
            .position(|window| window == MARK.as_bytes())?;
        let token = bytes.get(at + MARK.len()..at + MARK.len() + 7)?;
        Self::parse(std::str::from_utf8(token).ok()?)
    }
}

/// How a job is published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PublishMode {
    /// `saline`, which waits for the returns.
    Attached,
    /// `saline --async`.
    #[default]
    Async,
    /// `saline`, killed with SIGKILL after this time.
    Killed(Duration),
}

impl PublishMode {
    /// Returns the command that publishes, for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Attached => "saline",
            Self::Async => "saline --async",
            Self::Killed(_) => "saline, killed",
        }
    }
}

/// What an operator does about a job that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobAct {
    /// `saline-run jobs.cancel`.
    Cancel,
    /// `saline TARGET saltutil.kill_job`.
    Kill,
}

/// A job of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JobPlan {
    pub(crate) at: Duration,
    pub(crate) token: Token,
    /// The minions it is for, from 1; all of them when it is empty.
    pub(crate) targets: Vec<usize>,
    pub(crate) mode: PublishMode,
    /// How long it takes.
    pub(crate) takes: Duration,
    /// How many bytes it prints beside its first line and the end.
    pub(crate) prints: u64,
    /// To how many minions at a time the job is offered, if it is a batch.
    pub(crate) batch: Option<u32>,
    /// The minion on which it fails, if it does on one. A batch ends with that (`--failhard`).
    pub(crate) fails_on: Option<usize>,
    /// How long it is offered (`--ttl`), if it is not [`JOB_TTL`](super::JOB_TTL).
    pub(crate) ttl: Option<Duration>,
    /// What is done about it, and how long after it was published.
    pub(crate) act: Option<(JobAct, Duration)>,
}

impl JobPlan {
    /// Returns the words of `saline` for the minions that it is for.
    pub(crate) fn minions(&self) -> Vec<String> {
        match self.targets.as_slice() {
            [] => vec!["*".to_owned()],
            [one] => vec![format!("m{one}")],
            several => {
                let names: Vec<_> = several.iter().map(|n| format!("m{n}")).collect();
                vec!["-L".to_owned(), names.join(",")]
            }
        }
    }

    /// Returns the arguments of `saline` before the function.
    pub(crate) fn target(&self) -> Vec<String> {
        let mut words = self.minions();
        if let Some(size) = self.batch {
            words.extend(["-b".to_owned(), size.to_string()]);
            if self.fails_on.is_some() {
                words.push("--failhard".to_owned());
            }
        }
        if let Some(ttl) = self.ttl {
            words.extend(["--ttl".to_owned(), ttl.as_secs().to_string()]);
        }
        words
    }

    /// Returns the shell command.
    pub(crate) fn command(&self) -> String {
        command(self.token, self.takes, self.prints, self.fails_on)
    }

    /// Returns how long the job is offered.
    pub(crate) fn offered_for(&self) -> Duration {
        self.ttl.unwrap_or(super::JOB_TTL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_packed_arguments() {
        let command = command(Token(17), Duration::from_millis(1500), 3, None);
        let mut packed = vec![0xda, 0, 9];
        packed.extend_from_slice(command.as_bytes());
        assert_eq!(Token::find(&packed), Some(Token(17)));
        assert_eq!(Token::find(b"uptime"), None);
        assert_eq!(Token::find(b"token=t12"), None);
    }
}
