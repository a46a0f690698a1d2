//! The changing line of `--progress`.

use std::time::Duration;

/// The number of characters of the bar.
const BAR: usize = 10;

/// The longest line: a narrow terminal would break a longer one, and the break would stay.
const WIDTH: usize = 79;

/// How far a job has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobStatus<'a> {
    /// The number of minions that the job is for.
    pub(crate) expected: usize,
    /// The number of minions that returned.
    pub(crate) returned: usize,
    /// The number of these that failed.
    pub(crate) failed: usize,
    /// The name of a minion that is waited for.
    pub(crate) waiting_for: Option<&'a str>,
    /// How long ago the master heard that minion last; none when that is not known.
    pub(crate) heard: Option<Duration>,
}

impl JobStatus<'_> {
    /// Returns the line.
    pub(crate) fn line(&self) -> String {
        let done = match self.expected {
            0 => BAR,
            expected => (BAR * self.returned / expected).min(BAR),
        };
        let bar = format!("{}{}", "#".repeat(done), ".".repeat(BAR - done));
        let mut line = format!("[{bar}] {} of {}", self.returned, self.expected);
        if self.failed > 0 {
            line.push_str(&format!(", {} failed", self.failed));
        }
        let Some(minion) = self.waiting_for else {
            return line;
        };
        line.push_str(", waiting for ");
        let end = self.heard.map_or_else(String::new, |ago| {
            format!(", last heard {} s ago", ago.as_secs())
        });
        let room = WIDTH.saturating_sub(line.len() + end.len());
        if minion.len() > room {
            line.extend(minion.chars().take(room.saturating_sub(1)));
            line.push('…');
        } else {
            line.push_str(minion);
        }
        line + &end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let begun = JobStatus {
            expected: 500,
            returned: 0,
            failed: 0,
            waiting_for: Some("db1"),
            heard: None,
        };
        let most = JobStatus {
            returned: 412,
            failed: 3,
            heard: Some(Duration::from_secs(7)),
            ..begun
        };
        let last = JobStatus {
            returned: 499,
            ..most
        };
        let done = JobStatus {
            returned: 500,
            waiting_for: None,
            ..begun
        };
        let name = "x".repeat(100);
        let long = JobStatus {
            waiting_for: Some(&name),
            ..most
        };
        let lines = [begun, most, last, done, long]
            .map(|status| status.line())
            .join("\n");
        insta::assert_snapshot!(lines, @"
        [..........] 0 of 500, waiting for db1
        [########..] 412 of 500, 3 failed, waiting for db1, last heard 7 s ago
        [#########.] 499 of 500, 3 failed, waiting for db1, last heard 7 s ago
        [##########] 500 of 500
        [########..] 412 of 500, 3 failed, waiting for xxxxxxxxxxx…, last heard 7 s ago
        ");
    }
}
