//! Publishes the jobs of a plan with the real command line, and keeps what it printed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use saline_protocol::transport::Clock;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::error::{ChaosError, Result};
use crate::fleet::Operator;
use crate::plan::{JobPlan, PublishMode, Token};
use crate::timeline::Timeline;

/// How many command lines run at once.
const AT_ONCE: usize = 24;

/// The most that is read of what a command line prints.
const MAX_OUTPUT: u64 = 256 * 1024 * 1024;

/// How much is kept of the errors that a command line prints.
const MAX_ERRORS: usize = 400;

/// A job that was published, or may have been, and what its publisher printed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Publication {
    pub(crate) token: Option<Token>,
    /// The minions it was for; empty for all of them.
    pub(crate) targets: Vec<String>,
    /// How it was published, for people.
    pub(crate) mode: &'static str,
    pub(crate) began: Duration,
    /// To how many minions at a time the job was offered, if it was a batch, and how long each of them takes.
    pub(crate) batch: Option<(u32, Duration)>,
    /// None when its publisher had to be killed because it did not end.
    pub(crate) ended: Option<Duration>,
    /// The jid that was printed.
    pub(crate) jid: Option<String>,
    pub(crate) returns: Vec<PrintedReturn>,
    /// Minions that did not return, with the word in brackets.
    pub(crate) absent: Vec<(String, String)>,
    pub(crate) exit: Option<i32>,
    pub(crate) errors: String,
}

/// A return that was printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrintedReturn {
    pub(crate) minion: String,
    /// The bytes after the token; none when it is not what the job printed, but an error.
    pub(crate) printed: Option<u64>,
}

/// Publishes the jobs of a plan, each with a command line of its own, at most [`AT_ONCE`] at a time.
#[derive(Debug)]
pub(crate) struct Publisher {
    operator: Operator,
    timeline: Timeline,
    slots: Semaphore,
    /// Ends every command line that still runs.
    give_up: CancellationToken,
    published: Mutex<Vec<Publication>>,
}

impl Publisher {
    pub(crate) fn new(operator: Operator, timeline: Timeline) -> Self {
        Self {
            operator,
            timeline,
            slots: Semaphore::new(AT_ONCE),
            give_up: CancellationToken::new(),
            published: Mutex::default(),
        }
    }

    /// Kills the command lines that still run, and notes that they did not end.
    pub(crate) fn give_up(&self) {
        self.give_up.cancel();
    }

    /// Keeps a publication.
    pub(crate) fn keep(&self, publication: Publication) {
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        published.push(publication);
    }

    /// Returns the publications so far.
    pub(crate) fn published(&self) -> Vec<Publication> {
        let published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        published.clone()
    }

    /// Publishes a job, and keeps what was printed.
    pub(crate) async fn publish(&self, job: &JobPlan) -> Result<()> {
        let Ok(_slot) = self.slots.acquire().await else {
            return Ok(());
        };
        let mut publication = Publication {
            token: Some(job.token),
            targets: job.targets.iter().map(|n| format!("m{n}")).collect(),
            mode: job.mode.name(),
            batch: job.batch.map(|size| (size, job.takes)),
            began: self.timeline.now(),
            ..Publication::default()
        };
        let mut arguments = vec!["--out".to_owned(), "json".to_owned()];
        arguments.push(match job.mode {
            PublishMode::Async => "--async".to_owned(),
            PublishMode::Attached | PublishMode::Killed(_) => "--show-jid".to_owned(),
        });
        arguments.extend(job.target());
        arguments.extend(["cmd.run".to_owned(), job.command()]);
        self.run(&arguments, job, &mut publication).await?;
        self.keep(publication);
        Ok(())
    }

    async fn run(
        &self,
        arguments: &[String],
        job: &JobPlan,
        publication: &mut Publication,
    ) -> Result<()> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let start = |source| ChaosError::Start {
            program: "saline".to_owned(),
            source,
        };
        let mut child = self
            .operator
            .command("saline", &words)
            .spawn()
            .map_err(start)?;
        let output = read(child.stdout.take());
        let errors = read(child.stderr.take());
        let kill = async {
            match job.mode {
                PublishMode::Killed(after) => Clock.pause(after).await,
                PublishMode::Attached | PublishMode::Async => std::future::pending().await,
            }
        };
        let ends = async {
            let status = tokio::select! {
                status = child.wait() => status.map(Some),
                () = kill => child.kill().await.map(|()| None),
                () = self.give_up.cancelled() => {
                    return child.kill().await.map(|()| None);
                }
            };
            publication.ended = Some(self.timeline.now());
            status
        };
        let (status, output, errors) = tokio::join!(ends, output, errors);
        publication.exit = status.map_err(start)?.and_then(|status| status.code());
        read_errors(&String::from_utf8_lossy(&errors), publication);
        read_output(&output, job, publication);
        Ok(())
    }
}

/// Reads a stream to its end.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before an error is what was printed.
        let _ = stream.take(MAX_OUTPUT).read_to_end(&mut bytes).await;
    }
    bytes
}

/// Reads the jid and the absent minions.
fn read_errors(text: &str, publication: &mut Publication) {
    for line in text.lines() {
        if let Some(jid) = line.strip_prefix("jid: ") {
            publication.jid = Some(jid.trim().to_owned());
        } else if let Some(absent) = absence(line) {
            publication.absent.push(absent);
        } else if publication.errors.len() < MAX_ERRORS {
            publication.errors.push_str(line);
            publication.errors.push('\n');
        }
    }
}

/// Reads the line about a minion that did not return: its name, and the word in brackets.
pub(crate) fn absence(line: &str) -> Option<(String, String)> {
    let (minion, rest) = line.split_once(": Minion did not return. [")?;
    let (word, _) = rest.split_once(']')?;
    Some((minion.to_owned(), word.to_owned()))
}

/// Reads the objects that were printed as they came. Half an object, of a publisher that was killed, was
/// not printed.
fn read_output(bytes: &[u8], job: &JobPlan, publication: &mut Publication) {
    let token = job.token.to_string();
    let objects = serde_json::Deserializer::from_slice(bytes).into_iter::<serde_json::Value>();
    for object in objects.map_while(Result::ok) {
        let Some(entries) = object.as_object() else {
            continue;
        };
        for (name, value) in entries {
            if job.mode == PublishMode::Async {
                publication.jid = value.as_str().map(str::to_owned);
                continue;
            }
            let printed = value.as_str().and_then(|text| text.strip_prefix(&token));
            publication.returns.push(PrintedReturn {
                minion: name.clone(),
                printed: printed.map(|text| text.len() as u64),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_saline_prints_is_read() {
        let job = JobPlan {
            at: Duration::ZERO,
            token: Token(3),
            targets: vec![],
            mode: PublishMode::Attached,
            takes: Duration::ZERO,
            prints: 2,
            batch: None,
        };
        let mut publication = Publication::default();
        read_output(
            b"{\n    \"m1\": \"t000003xx\"\n}\n{\"m2\": \"The minion stopped\"}\n{\"m3\": \"t0",
            &job,
            &mut publication,
        );
        let returned = |minion: &str, printed| PrintedReturn {
            minion: minion.to_owned(),
            printed,
        };
        let expected = [returned("m1", Some(2)), returned("m2", None)];
        assert_eq!(publication.returns, expected);
        read_errors(
            "jid: 20261121091409931549\nm4: Minion did not return. [Expired]\nERROR: x\n",
            &mut publication,
        );
        assert_eq!(publication.jid.as_deref(), Some("20261121091409931549"));
        assert_eq!(
            publication.absent,
            [("m4".to_owned(), "Expired".to_owned())]
        );
        assert_eq!(publication.errors, "ERROR: x\n");
    }
}
