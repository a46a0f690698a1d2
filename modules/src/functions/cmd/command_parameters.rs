//! The parameters of a command, its run, and what is returned of it.

use std::path::PathBuf;
use std::time::Duration;

use saline_data::Value;
use saline_functions::{Failure, parameters};

use super::arguments::{AnyOf, CommandLine, Environment, Umask};
use crate::command::{Command, Output, split};
use crate::{JobContext, Outcome};

/// The locale of commands: English, and every character.
const LOCALE: &str = "C.UTF-8";

/// The parameters of a command, in the order of Salt's `cmd.run`.
#[parameters]
#[allow(
    clippy::struct_excessive_bools,
    reason = "an operator names each of them"
)]
pub(super) struct CommandParameters {
    pub(super) cmd: CommandLine,
    pub(super) cwd: Option<String>,
    #[default("")]
    pub(super) stdin: String,
    pub(super) runas: Option<String>,
    pub(super) group: Option<String>,
    #[default("/bin/sh")]
    pub(super) shell: String,
    #[default(true)]
    pub(super) python_shell: bool,
    pub(super) env: Option<Environment>,
    #[default(false)]
    pub(super) clean_env: bool,
    #[default(true)]
    pub(super) rstrip: bool,
    pub(super) umask: Option<Umask>,
    #[default("quiet")]
    #[expect(dead_code, reason = "the log never shows a command or its output")]
    pub(super) output_loglevel: String,
    #[default(false)]
    pub(super) hide_output: bool,
    pub(super) timeout: Option<Duration>,
    #[default(true)]
    pub(super) reset_system_locale: bool,
    #[default(false)]
    pub(super) ignore_retcode: bool,
    #[default(false)]
    pub(super) bg: bool,
    pub(super) prepend_path: Option<String>,
    pub(super) success_retcodes: Option<AnyOf<i64>>,
    pub(super) success_stdout: Option<AnyOf<String>>,
    pub(super) success_stderr: Option<AnyOf<String>>,
}

/// The output of a command that a function returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReturnedOutput {
    /// Both streams in the order of their bytes.
    Merged,
    /// Each stream by itself.
    Separate,
    /// No output, only the retcode.
    None,
}

/// The end of a command, with its output as it is returned.
#[derive(Debug)]
pub(super) struct FinishedCommand {
    /// The process id.
    pub pid: u32,
    /// The retcode that is shown.
    pub retcode: i64,
    /// The retcode of the job.
    pub retcode_of_job: i64,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl CommandParameters {
    /// Has a shell run the line, whatever `python_shell` says.
    pub(super) fn in_shell(mut self) -> Self {
        self.python_shell = true;
        self
    }

    /// Has the command run in the background.
    pub(super) fn in_background(mut self) -> Self {
        self.bg = true;
        self
    }

    /// Runs the command.
    ///
    /// # Errors
    /// When it cannot be started, when its output is lost, and when the job is ended.
    pub(super) fn execute(
        &self,
        job: &JobContext<'_>,
        wanted: ReturnedOutput,
    ) -> Result<FinishedCommand, Failure> {
        let timeout = self.timeout.filter(|timeout| !timeout.is_zero());
        if self.bg && timeout.is_some() {
            return Err(Failure::Invocation(
                "a command in the background (bg) has no timeout".to_owned(),
            ));
        }
        let folder = self.cwd.as_ref().map(PathBuf::from);
        if let Some(folder) = folder.as_ref().filter(|f| !f.is_absolute() || !f.is_dir()) {
            let shown = folder.display().to_string();
            // As in Salt, a word of a command line that has a line break is never `name=value`.
            let why = match shown.contains('\n') && shown.contains('=') {
                true => {
                    ": the argument has a line break, so it is the second argument, cwd, and sets no other; write the break \
                     as \\n in double quotes, as in stdin='\"a\\nb\"'"
                }
                false => "",
            };
            return Err(Failure::Execution(format!(
                "Specified cwd '{shown}' either not absolute or does not exist{why}"
            )));
        }
        let finished = job.run(&Command {
            argv: self.argv()?,
            folder,
            user: self.runas.clone(),
            group: self.group.clone(),
            umask: self.umask.map(|umask| umask.0),
            background: self.bg,
            environment: self.environment(),
            clean_environment: self.clean_env,
            input: self.stdin.clone().into_bytes(),
            timeout,
            merged: wanted != ReturnedOutput::Separate,
            discards_output: wanted == ReturnedOutput::None,
        })?;
        let (retcode, timed_out) = (finished.retcode, finished.timed_out);
        let taken = |output| match wanted {
            // What is thrown away may be incomplete.
            ReturnedOutput::None => Ok(self.taken(output, retcode).unwrap_or_default()),
            ReturnedOutput::Merged | ReturnedOutput::Separate => self.taken(output, retcode),
        };
        let mut done = FinishedCommand {
            pid: finished.pid,
            retcode,
            retcode_of_job: 0,
            stdout: taken(finished.stdout)?,
            stderr: taken(finished.stderr)?,
        };
        if timed_out {
            done.retcode = 1;
            done.retcode_of_job = 1;
            self.add_timed_out(&mut done.stdout);
            return Ok(done);
        }
        if self.is_success(&done) {
            done.retcode = 0;
        }
        done.retcode_of_job = if self.ignore_retcode { 0 } else { done.retcode };
        Ok(done)
    }

    /// Runs the command, and returns all that there is to tell.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub(super) fn all(&self, job: &JobContext<'_>) -> Result<Outcome, Failure> {
        let done = self.execute(job, ReturnedOutput::Separate)?;
        let value = Value::map([
            ("pid", Value::from(u64::from(done.pid))),
            ("retcode", Value::Int(done.retcode)),
            ("stderr", self.shown(done.stderr)),
            ("stdout", self.shown(done.stdout)),
        ]);
        Ok(Outcome::new(value, done.retcode_of_job))
    }

    /// Runs the command, and returns its retcode.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub(super) fn retcode_alone(&self, job: &JobContext<'_>) -> Result<Outcome, Failure> {
        let done = self.execute(job, ReturnedOutput::None)?;
        Ok(Outcome::new(Value::Int(done.retcode), done.retcode_of_job))
    }

    /// Returns the outcome of a function that returns the standard output.
    pub(super) fn outcome(&self, done: FinishedCommand) -> Outcome {
        Outcome::new(self.shown(done.stdout), done.retcode_of_job)
    }

    /// Returns the outcome of a function that returns the standard error.
    pub(super) fn outcome_of_errors(&self, done: FinishedCommand) -> Outcome {
        Outcome::new(self.shown(done.stderr), done.retcode_of_job)
    }

    /// Returns an output, unless it is hidden.
    fn shown(&self, output: Vec<u8>) -> Value {
        match self.hide_output {
            true => Value::from(""),
            false => Value::from_output(output),
        }
    }

    /// Returns the words to run.
    fn argv(&self) -> Result<Vec<String>, Failure> {
        match &self.cmd {
            CommandLine::Words(words) => Ok(words.clone()),
            CommandLine::Line(line) if self.python_shell => {
                Ok(vec![self.shell.clone(), "-c".to_owned(), line.clone()])
            }
            CommandLine::Line(line) => {
                split(line).map_err(|error| Failure::Execution(format!("{error}: {line}")))
            }
        }
    }

    /// Returns the changes of the environment, those that the operator asked for last.
    fn environment(&self) -> Vec<(String, Option<String>)> {
        let given = self.env.clone().unwrap_or_default();
        let mut all = match (self.reset_system_locale, given.has_locale()) {
            (false, _) => Vec::new(),
            (true, true) => vec![("LC_ALL", None), ("LANGUAGE", None)],
            (true, false) => vec![("LC_ALL", Some(LOCALE)), ("LANGUAGE", None)],
        }
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.map(str::to_owned)))
        .collect::<Vec<_>>();
        let path = given.0.iter().rfind(|(name, _)| name == "PATH").cloned();
        all.extend(given.0);
        if let Some(folders) = self
            .prepend_path
            .as_ref()
            .filter(|folders| !folders.is_empty())
        {
            let path = match path {
                Some((_, path)) => path,
                None if self.clean_env => None,
                None => std::env::var("PATH").ok(),
            };
            let path = match path.filter(|path| !path.is_empty()) {
                Some(path) => format!("{folders}:{path}"),
                None => folders.clone(),
            };
            all.push(("PATH".to_owned(), Some(path)));
        }
        all
    }

    /// Whether the operator calls this end of a command a success.
    fn is_success(&self, done: &FinishedCommand) -> bool {
        let says = |wanted: &Option<AnyOf<String>>, output: &[u8]| {
            let mut wanted = wanted.iter().flat_map(|any| &any.0);
            wanted.any(|text| text.as_bytes() == output)
        };
        let mut retcodes = self.success_retcodes.iter().flat_map(|any| &any.0);
        retcodes.any(|retcode| *retcode == done.retcode)
            || says(&self.success_stdout, &done.stdout)
            || says(&self.success_stderr, &done.stderr)
    }

    /// Returns an output of a command with this retcode.
    fn taken(&self, output: Output, retcode: i64) -> Result<Vec<u8>, Failure> {
        // A command that succeeded fails too if its output is missing.
        let mut bytes = output.into_bytes().map_err(|why| Failure::Ended {
            text: format!("ERROR: {why}; the command's retcode was {retcode}"),
            retcode: if retcode == 0 { 1 } else { retcode },
        })?;
        if self.rstrip {
            bytes.truncate(bytes.trim_ascii_end().len());
        }
        Ok(bytes)
    }

    /// Adds Salt's line about a command that timed out.
    fn add_timed_out(&self, output: &mut Vec<u8>) {
        if !output.is_empty() {
            output.push(b'\n');
        }
        let seconds = self.timeout.unwrap_or_default().as_secs_f64().ceil();
        let plural = if seconds == 1.0 { "" } else { "s" };
        let text = format!("'{}' : Timed out after {seconds} second{plural}", self.cmd);
        output.extend_from_slice(text.as_bytes());
    }
}
