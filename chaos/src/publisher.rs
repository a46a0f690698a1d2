//! Publishes the jobs of a plan with the real command line, and keeps what it printed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use saline_protocol::transport::Clock;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::contents::Content;
use crate::error::{ChaosError, Result};
use crate::fleet::Operator;
use crate::plan::{JobAct, JobPlan, PublishMode};
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
    pub(crate) job: JobPlan,
    /// How it was published, for people.
    pub(crate) mode: &'static str,
    pub(crate) began: Duration,
    /// None when its publisher had to be killed because it did not end.
    pub(crate) ended: Option<Duration>,
    /// The jid that was printed.
    pub(crate) jid: Option<String>,
    pub(crate) returns: Vec<PrintedReturn>,
    /// Minions that did not return, with the word in brackets.
    pub(crate) absent: Vec<(String, String)>,
    pub(crate) exit: Option<i32>,
    pub(crate) errors: String,
    /// What was done about the job.
    pub(crate) acts: Vec<DoneAct>,
}

/// A return that was printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrintedReturn {
    pub(crate) minion: String,
    pub(crate) content: Content,
}

/// What an operator did about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DoneAct {
    pub(crate) act: JobAct,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// What was answered for each minion.
    pub(crate) answers: BTreeMap<String, String>,
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
        let Ok(slot) = self.slots.acquire().await else {
            return Ok(());
        };
        let mut publication = Publication {
            job: job.clone(),
            mode: job.mode.name(),
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
        drop(slot);
        if let (Some((act, after)), Some(jid)) = (job.act, publication.jid.clone()) {
            Clock.pause(after).await;
            publication.acts.push(self.act(act, job, &jid).await);
        }
        self.keep(publication);
        Ok(())
    }

    /// Does what an operator does about a job. A failure shows as an act without answers.
    async fn act(&self, act: JobAct, job: &JobPlan, jid: &str) -> DoneAct {
        let from = self.timeline.now();
        let output = match act {
            JobAct::Cancel => self.operator.run(&["jobs.cancel", jid]).await,
            JobAct::Kill => {
                let mut words = job.minions();
                words.extend(["saltutil.kill_job".to_owned(), jid.to_owned()]);
                self.operator.call(&words).await
            }
        };
        let output = output.map(|output| output.stdout).unwrap_or_default();
        let objects = serde_json::Deserializer::from_slice(&output).into_iter();
        let objects: Vec<serde_json::Map<String, serde_json::Value>> =
            objects.map_while(Result::ok).collect();
        let answers = objects.into_iter().flatten();
        let answers = answers.filter_map(|(name, word)| Some((name, word.as_str()?.to_owned())));
        let done = DoneAct {
            act,
            from,
            to: self.timeline.now(),
            answers: answers.collect(),
        };
        self.timeline.note(format_args!(
            "{act:?} of {}: {} minions answered for",
            job.token,
            done.answers.len()
        ));
        done
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
        read_output(&output, publication);
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
fn read_output(bytes: &[u8], publication: &mut Publication) {
    let objects = serde_json::Deserializer::from_slice(bytes).into_iter::<serde_json::Value>();
    for object in objects.map_while(Result::ok) {
        let Some(entries) = object.as_object() else {
            continue;
        };
        for (name, value) in entries {
            if publication.job.mode == PublishMode::Async {
                publication.jid = value.as_str().map(str::to_owned);
                continue;
            }
            publication.returns.push(PrintedReturn {
                minion: name.clone(),
                content: match value.as_str() {
                    Some(text) => Content::of_text(text),
                    None => Content::Other(value.to_string()),
                },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_saline_prints_is_read() {
        let mut publication = Publication::default();
        publication.job.mode = PublishMode::Attached;
        read_output(
            b"{\n    \"m1\": \"t000003 m1\\n.\"\n}\n{\"m2\": \"The minion stopped while it ran this job\"}\n{\"m3\": \"t0",
            &mut publication,
        );
        let printed: Vec<_> = publication
            .returns
            .iter()
            .map(|r| r.minion.as_str())
            .collect();
        assert_eq!(printed, ["m1", "m2"]);
        assert!(matches!(publication.returns[0].content, Content::Whole(_)));
        assert_eq!(publication.returns[1].content, Content::Interrupted);
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
