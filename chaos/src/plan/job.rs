//! A job of a plan, and the shell command that it runs.

use std::fmt;
use std::time::Duration;

/// The variable with the file to which a job's shell appends that it runs.
pub(crate) const LEDGER: &str = "SALINE_CHAOS_LEDGER";

/// The variable with the name of the process that runs a job.
pub(crate) const INSTANCE: &str = "SALINE_CHAOS_INSTANCE";

/// What a job is recognised by in ledgers, returns and stores, also when nobody was told its jid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishMode {
    /// `saline`, which waits for the returns.
    Attached,
    /// `saline --async`.
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

/// A job of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobPlan {
    pub(crate) at: Duration,
    pub(crate) token: Token,
    /// The minions it is for, from 1; all of them when it is empty.
    pub(crate) targets: Vec<usize>,
    pub(crate) mode: PublishMode,
    /// How long it takes.
    pub(crate) takes: Duration,
    /// How many bytes it prints beside its token.
    pub(crate) prints: u64,
    /// To how many minions at a time the job is offered, if it is a batch.
    pub(crate) batch: Option<u32>,
}

impl JobPlan {
    /// Returns the arguments of `saline` before the function.
    pub(crate) fn target(&self) -> Vec<String> {
        let mut words = match self.targets.as_slice() {
            [] => vec!["*".to_owned()],
            [one] => vec![format!("m{one}")],
            several => {
                let names: Vec<_> = several.iter().map(|n| format!("m{n}")).collect();
                vec!["-L".to_owned(), names.join(",")]
            }
        };
        if let Some(size) = self.batch {
            words.extend(["-b".to_owned(), size.to_string()]);
        }
        words
    }

    /// Returns the shell command: it appends one line to the ledger, waits, and prints.
    pub(crate) fn command(&self) -> String {
        command(self.token, self.takes, self.prints)
    }
}

/// Returns the shell command of a job: it appends one line to the ledger, in a single write, waits, and
/// prints its token and so many bytes.
pub(crate) fn command(token: Token, takes: Duration, prints: u64) -> String {
    let mut text = format!(
        "true; {MARK}{token}; printf '%s %s %s\\n' $token \"${INSTANCE}\" \"$(date +%s.%N)\" >> \"${LEDGER}\"; "
    );
    if !takes.is_zero() {
        text.push_str(&format!("sleep {:.3}; ", takes.as_secs_f64()));
    }
    text.push_str("printf %s $token");
    if prints > 0 {
        text.push_str(&format!("; head -c {prints} /dev/zero | tr '\\0' x"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_packed_arguments() {
        let command = command(Token(17), Duration::from_millis(1500), 3);
        let mut packed = vec![0xda, 0, 9];
        packed.extend_from_slice(command.as_bytes());
        assert_eq!(Token::find(&packed), Some(Token(17)));
        assert_eq!(Token::find(b"uptime"), None);
        assert_eq!(Token::find(b"token=t12"), None);
    }

    #[test]
    fn the_command_appends_one_line_and_prints() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("ledger");
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", &command(Token(5), Duration::ZERO, 4)])
            .env(LEDGER, &ledger)
            .env(INSTANCE, "m1")
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"t000005xxxx");
        let text = std::fs::read_to_string(ledger).unwrap();
        assert!(text.starts_with("t000005 m1 "), "{text}");
        assert_eq!(text.lines().count(), 1);
    }
}
