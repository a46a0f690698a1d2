//! `cmd`: runs commands.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function, parameters};

use crate::command::{Command, Finished, Output, split};
use crate::{Functions, JobContext, Outcome};

pub(super) const FUNCTIONS: Functions = &[&RUN, &RUN_ALL, &RETCODE, &RUN_STDOUT, &RUN_STDERR];

/// The parameters of every function here, in the order of Salt's `cmd.run`.
#[parameters]
struct Asked {
    cmd: CommandLine,
    cwd: Option<String>,
    #[default("")]
    stdin: String,
    runas: Option<String>,
    #[default("/bin/sh")]
    shell: String,
    #[default(true)]
    python_shell: bool,
    env: Option<Environment>,
    #[default(false)]
    clean_env: bool,
    #[default(true)]
    rstrip: bool,
    umask: Option<Umask>,
    timeout: Option<Duration>,
    #[default(false)]
    ignore_retcode: bool,
    #[default(false)]
    bg: bool,
}

/// Runs a command and returns its output: what it wrote to standard output and standard error, in the order of
/// arrival. The retcode is that of the command.
///
/// cmd
///     A line for the shell, or a list of arguments, which runs without a shell.
///
/// cwd
///     The absolute path of the working folder. Without it, the command runs in the home of its user.
///
/// stdin
///     A text that the command reads from its standard input.
///
/// runas
///     The user that the command runs as, with all its groups. Only a minion that runs as root can do this. HOME,
///     USER, LOGNAME and SHELL are those of the user.
///
/// shell
///     The path of a shell that understands `-c`.
///
/// python_shell
///     `False` splits the line into words as a shell does, and expands nothing in it. No shell runs.
///
/// env
///     Variables that are added to the environment: a mapping, or a list of `NAME=value`. A variable of a mapping
///     whose value is `None` is removed.
///
/// clean_env
///     `True` gives the command the variables of `env` and no others. Otherwise it also gets those for paths, user,
///     language, time zone and proxies of the minion, and those of the option `pass_environment`.
///
/// rstrip
///     `False` keeps white space at the end of the output.
///
/// umask
///     The umask of the command, an octal number.
///
/// timeout
///     A number of seconds. A command that runs longer is killed, with its process group. A process that left the
///     group (`setsid`) goes on.
///
/// ignore_retcode
///     `True` reports success whatever the command's retcode is.
///
/// bg
///     `True` starts the command and leaves it alone: its output is thrown away, its end is not reported, and the
///     minion does not end it when it stops. systemd does when it stops the service of the minion, unless that has
///     `KillMode=process`.
///
/// CLI Example:
///
///     saline '*' cmd.run "df /var | awk '{print \$5}'"
///     saline '*' cmd.run 'echo $HOME' env='{HOME: /tmp}' cwd=/ timeout=10
#[function(own_process)]
fn run(job: &JobContext<'_>, #[parameters] asked: Asked) -> Result<Outcome, Failure> {
    let done = asked.execute(job, Wanted::Merged)?;
    asked.outcome(done.stdout, done.retcode, done.timed_out)
}

/// Runs a command and returns a mapping of its `pid`, `retcode`, `stdout` and `stderr`. The parameters are those of
/// `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.run_all 'systemctl is-active sshd'
#[function(own_process)]
fn run_all(job: &JobContext<'_>, #[parameters] asked: Asked) -> Result<Outcome, Failure> {
    let done = asked.execute(job, Wanted::Apart)?;
    let (retcode, timed_out) = (done.retcode, done.timed_out);
    let value = Value::map([
        ("pid", Value::from(u64::from(done.pid))),
        ("retcode", shown_retcode(retcode, timed_out)),
        ("stderr", asked.value(done.stderr, retcode, false)?),
        ("stdout", asked.value(done.stdout, retcode, timed_out)?),
    ]);
    Ok(Outcome::new(value, asked.retcode(retcode, timed_out)))
}

/// Runs a command and returns its retcode; its output is thrown away. The parameters are those of `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.retcode 'test -f /var/run/reboot-required'
#[function(own_process)]
fn retcode(job: &JobContext<'_>, #[parameters] asked: Asked) -> Result<Outcome, Failure> {
    let done = asked.execute(job, Wanted::Nothing)?;
    let retcode = asked.retcode(done.retcode, done.timed_out);
    let shown = shown_retcode(done.retcode, done.timed_out);
    Ok(Outcome::new(shown, retcode))
}

/// Runs a command and returns what it wrote to its standard output. The parameters are those of `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.run_stdout 'id -un'
#[function(own_process)]
fn run_stdout(job: &JobContext<'_>, #[parameters] asked: Asked) -> Result<Outcome, Failure> {
    let done = asked.execute(job, Wanted::Apart)?;
    asked.outcome(done.stdout, done.retcode, done.timed_out)
}

/// Runs a command and returns what it wrote to its standard error. The parameters are those of `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.run_stderr 'ls /no/such/folder'
#[function(own_process)]
fn run_stderr(job: &JobContext<'_>, #[parameters] asked: Asked) -> Result<Outcome, Failure> {
    let done = asked.execute(job, Wanted::Apart)?;
    asked.outcome(done.stderr, done.retcode, done.timed_out)
}

/// The output of a command that a function returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Both streams in the order of their bytes.
    Merged,
    /// Each stream by itself.
    Apart,
    /// No output, only the retcode.
    Nothing,
}

impl Asked {
    fn execute(&self, job: &JobContext<'_>, wanted: Wanted) -> Result<Finished, Failure> {
        let timeout = self.timeout.filter(|timeout| !timeout.is_zero());
        if self.bg && timeout.is_some() {
            return Err(Failure::Invocation(
                "a command in the background (bg) has no timeout".to_owned(),
            ));
        }
        let folder = self.cwd.as_ref().map(PathBuf::from);
        if let Some(folder) = folder.as_ref().filter(|f| !f.is_absolute() || !f.is_dir()) {
            return Err(Failure::Execution(format!(
                "Specified cwd '{}' either not absolute or does not exist",
                folder.display()
            )));
        }
        let command = Command {
            argv: self.argv()?,
            folder,
            user: self.runas.clone(),
            umask: self.umask.map(|umask| umask.0),
            background: self.bg,
            environment: self.env.clone().unwrap_or_default().0,
            clean_environment: self.clean_env,
            input: self.stdin.clone().into_bytes(),
            timeout,
            merged: wanted != Wanted::Apart,
            discards_output: wanted == Wanted::Nothing,
        };
        job.run(&command)
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

    /// Returns the outcome of a function that returns this output.
    fn outcome(&self, output: Output, retcode: i64, timed_out: bool) -> Result<Outcome, Failure> {
        let value = self.value(output, retcode, timed_out)?;
        Ok(Outcome::new(value, self.retcode(retcode, timed_out)))
    }

    /// Returns an output of a command with this retcode as a value, with Salt's line after it if it timed out.
    fn value(&self, output: Output, retcode: i64, timed_out: bool) -> Result<Value, Failure> {
        // A command that succeeded fails too if its output is missing.
        let mut bytes = output.into_bytes().map_err(|why| Failure::Ended {
            text: format!("ERROR: {why}; the command's retcode was {retcode}"),
            retcode: if retcode == 0 { 1 } else { retcode },
        })?;
        if self.rstrip {
            bytes.truncate(bytes.trim_ascii_end().len());
        }
        if timed_out {
            if !bytes.is_empty() {
                bytes.push(b'\n');
            }
            let seconds = self.timeout.unwrap_or_default().as_secs_f64().ceil();
            let plural = if seconds == 1.0 { "" } else { "s" };
            let text = format!("'{}' : Timed out after {seconds} second{plural}", self.cmd);
            bytes.extend_from_slice(text.as_bytes());
        }
        Ok(Value::from_output(bytes))
    }

    fn retcode(&self, retcode: i64, timed_out: bool) -> i64 {
        match (timed_out, self.ignore_retcode) {
            (true, _) => 1,
            (false, true) => 0,
            (false, false) => retcode,
        }
    }
}

/// Returns the retcode of a command as it is shown.
fn shown_retcode(retcode: i64, timed_out: bool) -> Value {
    Value::Int(if timed_out { 1 } else { retcode })
}

/// A command as an operator typed it.
enum CommandLine {
    /// For a shell, or to be split into words.
    Line(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

impl FromValue for CommandLine {
    const TAKES: &'static str = "a text, or a list of texts and numbers";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            list @ Value::List(_) => Vec::from_value(list).map(Self::Words),
            other => String::from_value(other).map(Self::Line),
        }
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => f.write_str(line),
            Self::Words(words) => f.write_str(&words.join(" ")),
        }
    }
}

/// A umask: an octal number. As in Salt, 0 is refused: it would let everybody write to new files.
#[derive(Clone, Copy)]
struct Umask(u32);

impl FromValue for Umask {
    const TAKES: &'static str = "an octal number from 1 to 777";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let text = String::from_value(value)?;
        match u32::from_str_radix(&text, 8) {
            Ok(mask @ 1..=0o777) => Ok(Self(mask)),
            _ => Err(Mismatch::of::<Self>(&text.into())),
        }
    }
}

/// Changes of the environment: a name without a value is removed.
#[derive(Clone, Default)]
struct Environment(Vec<(String, Option<String>)>);

impl FromValue for Environment {
    const TAKES: &'static str = "a mapping, or a list of NAME=value";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let parts = match value {
            Value::List(parts) => parts,
            one => vec![one],
        };
        let mut variables = Vec::new();
        for part in parts {
            match part {
                Value::Map(entries) => {
                    for (name, value) in entries {
                        variables.push((name, Option::from_value(value)?));
                    }
                }
                part => {
                    let pair = part.as_str().and_then(|text| text.split_once('='));
                    let (name, value) = pair.ok_or_else(|| Mismatch::of::<Self>(&part))?;
                    variables.push((name.to_owned(), Some(value.to_owned())));
                }
            }
        }
        for (name, value) in &variables {
            let is_bad = name.is_empty() || name.contains(['=', '\0']);
            if is_bad || value.as_ref().is_some_and(|value| value.contains('\0')) {
                let found = Value::from(name.as_str());
                return Err(Mismatch::new("variables that can be set", &found));
            }
        }
        Ok(Self(variables))
    }
}
