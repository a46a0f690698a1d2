//! The shell command of a job, its lines in the ledger and its output, and the check that an output is whole.

use std::time::Duration;

use super::Token;

/// The variable that names the ledger: the file to which a job's shell appends a line when it begins, and another when it ends.
pub(crate) const LEDGER: &str = "SALINE_CHAOS_LEDGER";

/// The variable with the name of the process that runs a job.
pub(crate) const INSTANCE: &str = "SALINE_CHAOS_INSTANCE";

/// The words of the ledger for the beginning and the end of a run.
pub(crate) const BEGUN: &str = "begun";
pub(crate) const ENDED: &str = "ended";

/// The exit code of a job that is to fail.
pub(crate) const FAILS_WITH: i64 = 3;

/// The end of every output, so that a cut output is recognised.
const END: &str = ".";

/// Returns the shell command of a job. The command appends a line to the ledger, in a single write, waits, prints, and appends
/// another line. Its output is a line with its token and the process that runs it, `prints` bytes of the same line repeated, and
/// the end. On the minion `fails_on` the command then fails.
pub(crate) fn command(
    token: Token,
    takes: Duration,
    prints: u64,
    fails_on: Option<usize>,
) -> String {
    let mut text = format!(
        "true; {mark}; line=\"$token ${INSTANCE}\"; \
         note() {{ printf '%s %s %s\\n' \"$line\" \"$(date +%s.%N)\" $1 >> \"${LEDGER}\"; }}; note {BEGUN}; ",
        mark = token.mark()
    );
    if !takes.is_zero() {
        text.push_str(&format!("sleep {:.3}; ", takes.as_secs_f64()));
    }
    text.push_str("printf '%s\\n' \"$line\"; ");
    if prints > 0 {
        text.push_str(&format!("yes \"$line\" 2>/dev/null | head -c {prints}; "));
    }
    text.push_str(&format!("printf {END}; note {ENDED}"));
    if let Some(minion) = fails_on {
        text.push_str(&format!(
            "; [ \"${INSTANCE}\" != m{minion} ] || exit {FAILS_WITH}"
        ));
    }
    text
}

/// The whole output of a job, which its first line and its length determine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) token: Token,
    /// The process that ran it: a minion's id, or the name of a clone.
    pub(crate) instance: String,
    /// The bytes beside the first line and the end.
    pub(crate) prints: u64,
}

impl Output {
    /// Parses the output of a job. Returns `None` when a byte of it differs or is missing.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (line, rest) = text.split_at(text.find('\n')? + 1);
        let (token, instance) = line.trim_end().split_once(' ')?;
        let body = rest.strip_suffix(END)?;
        let mut expected = line.bytes().cycle();
        let is_whole = body.bytes().all(|byte| expected.next() == Some(byte));
        let output = Self {
            token: Token::parse(token)?,
            instance: instance.to_owned(),
            prints: body.len() as u64,
        };
        is_whole.then_some(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_notes_its_beginning_and_its_end_and_prints_what_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("ledger");
        let run = |fails_on| {
            std::process::Command::new("/bin/sh")
                .args(["-c", &command(Token(5), Duration::ZERO, 40, fails_on)])
                .env(LEDGER, &ledger)
                .env(INSTANCE, "m1")
                .output()
                .unwrap()
        };
        let output = run(Some(2));
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let read = Output::read(&text).unwrap();
        assert_eq!(
            (read.token, read.instance.as_str(), read.prints),
            (Token(5), "m1", 40)
        );
        let noted = std::fs::read_to_string(&ledger).unwrap();
        let lines: Vec<_> = noted.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("t000005 m1 ") && lines[0].ends_with(" begun"));
        assert!(lines[1].starts_with("t000005 m1 ") && lines[1].ends_with(" ended"));
        assert_eq!(i64::from(run(Some(1)).status.code().unwrap()), FAILS_WITH);
    }

    #[test]
    fn an_output_with_another_byte_or_without_its_end_is_not_whole() {
        let text = "t000005 m1\nt000005 m1\nt0000.";
        assert_eq!(Output::read(text).unwrap().prints, 16);
        for damaged in [
            "t000005 m1\nt000005 m1\nt0000",
            "t000005 m1\nt000005 m2\nt0000.",
            "t000005 m1\nt0000t000005 m1\n.",
            "t000005 m1",
            "x000005 m1\n.",
            "",
        ] {
            assert_eq!(Output::read(damaged), None, "{damaged:?}");
        }
    }
}
