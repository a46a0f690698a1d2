//! What an operator types, as processes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use saline_protocol::transport::Clock;
use tokio::process::Command;

use super::services::{MINE_NAME, PILLAR_KEY};
use super::{config, processes};
use crate::error::{ChaosError, Result};

/// How long a command may take that does not publish a job of the plan.
const READING: Duration = Duration::from_secs(30);

/// Runs commands of an operator on the master's machine.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    root: PathBuf,
}

impl Operator {
    /// Creates the operator of the run below `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Returns the folder of the configuration.
    pub(crate) fn config(&self) -> PathBuf {
        config::etc(&self.root)
    }

    /// Returns a command, not started yet. It is killed when it is dropped.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = processes::program(program);
        command
            .arg("-c")
            .arg(self.config())
            .args(arguments)
            .env(processes::ROOT, &self.root)
            // The operator shares the master's machine, and so its clock.
            .env(
                "SALINE_CHAOS_CLOCK_FILE",
                config::clock_file(&self.root, "master"),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        command
    }

    /// Runs a function of `saline-run`, and returns what it printed.
    pub(crate) async fn run(&self, function: &[&str]) -> Result<Output> {
        self.carry_out("saline-run", function).await
    }

    /// Runs a function of minions, and returns what `saline` printed.
    pub(crate) async fn call(&self, words: &[String]) -> Result<Output> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.carry_out("saline", &words).await
    }

    /// Deletes the key of a minion.
    pub(crate) async fn delete_key(&self, minion: &str) -> Result<()> {
        let output = self.carry_out("saline-key", &["-y", "-d", minion]).await?;
        match output.status.success() {
            true => Ok(()),
            false => Err(ChaosError::Command(format!(
                "saline-key -d {minion}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
        }
    }

    async fn carry_out(&self, program: &str, words: &[&str]) -> Result<Output> {
        let words = [&["--out", "json"], words].concat();
        let output = self.command(program, &words).output();
        let deadline = Clock.after(READING);
        let output = Clock.deadline(deadline, output).await.map_err(|_| {
            ChaosError::Command(format!(
                "{program} {} did not end within {} s",
                words.join(" "),
                READING.as_secs()
            ))
        })?;
        output.map_err(|source| ChaosError::Start {
            program: program.to_owned(),
            source,
        })
    }

    /// Returns the minions that the master calls present; none when no master answers.
    pub(crate) async fn present(&self) -> Option<BTreeSet<String>> {
        let output = self.run(&["manage.versions"]).await.ok()?;
        if !output.status.success() {
            return None;
        }
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let groups = value.as_object()?.values();
        let members = groups.filter_map(serde_json::Value::as_object);
        Some(members.flat_map(|group| group.keys().cloned()).collect())
    }

    /// Returns for each minion that answers the minion whose pillar it has; none for one without a pillar.
    pub(crate) async fn pillars(&self) -> Result<BTreeMap<String, Option<String>>> {
        let asked = ["*", "pillar.get", PILLAR_KEY, "unmask=True", "--static"];
        let output = self.carry_out("saline", &asked).await?;
        let answers: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&output.stdout).unwrap_or_default();
        let named = |value: serde_json::Value| value.as_str().map(str::to_owned);
        Ok(answers
            .into_iter()
            .map(|(minion, value)| (minion, named(value).filter(|name| !name.is_empty())))
            .collect())
    }

    /// Returns the value of each minion in the mine.
    pub(crate) async fn mine(&self) -> Result<BTreeMap<String, String>> {
        let output = self.run(&["mine.get", "*", MINE_NAME]).await?;
        let found: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&output.stdout).unwrap_or_default();
        let text = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        Ok(found
            .into_iter()
            .map(|(minion, value)| (minion, text(value)))
            .collect())
    }

    /// Copies the store, and returns the folder of the copy.
    pub(crate) async fn back_up(&self) -> Result<PathBuf> {
        let output = self.run(&["store.backup"]).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let value: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let folder = value
            .as_ref()
            .and_then(find_folder)
            .filter(|_| output.status.success());
        folder.ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            ChaosError::Command(format!(
                "saline-run store.backup: {}{}",
                text,
                errors.trim()
            ))
        })
    }
}

/// Finds the first absolute path in what was printed.
fn find_folder(value: &serde_json::Value) -> Option<PathBuf> {
    match value {
        serde_json::Value::String(text) if text.starts_with('/') => Some(PathBuf::from(text)),
        serde_json::Value::Object(entries) => entries.values().find_map(find_folder),
        _ => None,
    }
}
