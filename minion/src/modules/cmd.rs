//! `cmd`: runs commands.

use std::path::PathBuf;

use saline_data::Value;

use super::{Call, Failure, Function, Module, Outcome, Parameter, optional, required, scalar_text};
use crate::command::{Command, CommandError, Finished, Output, split};

/// The module `cmd`.
#[derive(Debug)]
pub struct Cmd;

impl Module for Cmd {
    fn name(&self) -> &'static str {
        "cmd"
    }

    fn functions(&self) -> &'static [Function] {
        FUNCTIONS
    }
}

/// The parameters of `cmd.run`, in Salt's order.
const PARAMETERS: &[Parameter] = &[
    required("cmd"),
    optional("cwd"),
    optional("stdin"),
    optional("runas"),
    optional("shell"),
    optional("python_shell"),
    optional("env"),
    optional("clean_env"),
    optional("rstrip"),
    optional("umask"),
    optional("timeout"),
    optional("ignore_retcode"),
    optional("bg"),
];

const FUNCTIONS: &[Function] = &[
    Function::new("run", RUN, run).with(PARAMETERS),
    Function::new("run_all", RUN_ALL, run_all).with(PARAMETERS),
    Function::new("retcode", RETCODE, retcode).with(PARAMETERS),
    Function::new("run_stdout", RUN_STDOUT, run_stdout).with(PARAMETERS),
    Function::new("run_stderr", RUN_STDERR, run_stderr).with(PARAMETERS),
];

const SHELL: &str = "/bin/sh";

const RUN: &str = "
Execute the passed command and return the output as a string. What it prints on the standard error
output is part of it.

cmd
    The command to run. A command line goes through `/bin/sh -c`; a list of arguments runs without a
    shell.

cwd
    The folder in which the command runs. Without it: the home of the command's user.

stdin
    A string of standard input for the command.

runas
    The user that the command runs as, with all its groups; only a minion that runs as root can do this.
    HOME, USER, LOGNAME and SHELL are those of the user.

shell
    Another shell than /bin/sh.

python_shell
    False runs the command without a shell: it is split into words as a shell would do it, and
    nothing in it is expanded.

env
    Environment variables to be set prior to execution: a mapping, or a list of `NAME=value`.

clean_env
    Give the command the variables of `env` and no others. Without it, it also gets those for paths, user,
    language, time zone and proxies of the minion, and those of the option pass_environment.

rstrip
    Strip all whitespace off the end of output before it is returned. True unless said otherwise.

umask
    The umask of the command, as an octal number.

timeout
    A timeout in seconds, after which the command and everything that it started is killed.

ignore_retcode
    Report success whatever the exit code.

bg
    Start the command and leave it alone: its output is thrown away, nobody learns of its end, and it goes on
    when the minion stops.

CLI Example:

.. code-block:: bash

    saline '*' cmd.run \"ls -l | awk '/foo/{print \\$2}'\"
    saline '*' cmd.run 'echo $HOME' env='{HOME: /tmp}' cwd=/ timeout=10
";

fn run(call: &Call<'_>) -> Result<Outcome, Failure> {
    let (asked, done) = execute(call, Wanted::Merged)?;
    Ok(Outcome::new(
        asked.value(done.stdout, done.retcode, done.timed_out)?,
        asked.retcode(done.retcode, done.timed_out),
    ))
}

const RUN_ALL: &str = "
Execute the passed command and return a dict of return data: pid, retcode, stderr and stdout. The
arguments are those of cmd.run.

CLI Example:

.. code-block:: bash

    saline '*' cmd.run_all \"ls -l | awk '/foo/{print \\$2}'\"
";

fn run_all(call: &Call<'_>) -> Result<Outcome, Failure> {
    let (asked, done) = execute(call, Wanted::Apart)?;
    let retcode = asked.retcode(done.retcode, done.timed_out);
    let shown = if done.timed_out { 1 } else { done.retcode };
    let value = Value::map([
        ("pid", Value::from(u64::from(done.pid))),
        ("retcode", Value::Int(shown)),
        ("stderr", asked.value(done.stderr, done.retcode, false)?),
        (
            "stdout",
            asked.value(done.stdout, done.retcode, done.timed_out)?,
        ),
    ]);
    Ok(Outcome::new(value, retcode))
}

const RETCODE: &str = "
Execute a shell command and return the command's return code. The arguments are those of cmd.run.

CLI Example:

.. code-block:: bash

    saline '*' cmd.retcode \"file /bin/bash\"
";

fn retcode(call: &Call<'_>) -> Result<Outcome, Failure> {
    let (asked, done) = execute(call, Wanted::Nothing)?;
    let shown = if done.timed_out { 1 } else { done.retcode };
    Ok(Outcome::new(
        Value::Int(shown),
        asked.retcode(done.retcode, done.timed_out),
    ))
}

const RUN_STDOUT: &str = "
Execute a command, and only return the standard out. The arguments are those of cmd.run.

CLI Example:

.. code-block:: bash

    saline '*' cmd.run_stdout \"ls -l | awk '/foo/{print \\$2}'\"
";

fn run_stdout(call: &Call<'_>) -> Result<Outcome, Failure> {
    let (asked, done) = execute(call, Wanted::Apart)?;
    Ok(Outcome::new(
        asked.value(done.stdout, done.retcode, done.timed_out)?,
        asked.retcode(done.retcode, done.timed_out),
    ))
}

const RUN_STDERR: &str = "
Execute a command and only return the standard error. The arguments are those of cmd.run.

CLI Example:

.. code-block:: bash

    saline '*' cmd.run_stderr \"ls -l | awk '/foo/{print \\$2}'\"
";

fn run_stderr(call: &Call<'_>) -> Result<Outcome, Failure> {
    let (asked, done) = execute(call, Wanted::Apart)?;
    Ok(Outcome::new(
        asked.value(done.stderr, done.retcode, done.timed_out)?,
        asked.retcode(done.retcode, done.timed_out),
    ))
}

/// The parsed options of a call.
struct Asked {
    shown: String,
    seconds: u64,
    strip: bool,
    ignore_retcode: bool,
}

impl Asked {
    /// Returns an output of a command with this retcode as a value, with Salt's line after it if it timed out.
    fn value(&self, output: Output, retcode: i64, timed_out: bool) -> Result<Value, Failure> {
        let mut bytes = output
            .into_bytes()
            .map_err(|why| Failure::Oversize { why, retcode })?;
        if self.strip {
            bytes.truncate(bytes.trim_ascii_end().len());
        }
        if timed_out {
            if !bytes.is_empty() {
                bytes.push(b'\n');
            }
            let plural = if self.seconds == 1 { "" } else { "s" };
            let text = format!(
                "'{}' : Timed out after {} second{plural}",
                self.shown, self.seconds
            );
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

fn execute(call: &Call<'_>, wanted: Wanted) -> Result<(Asked, Finished), Failure> {
    let (argv, shown) = command_line(call)?;
    let timeout = call.seconds("timeout")?.filter(|t| !t.is_zero());
    let folder = call.text("cwd")?.map(PathBuf::from);
    if let Some(folder) = folder.as_ref().filter(|f| !f.is_absolute() || !f.is_dir()) {
        return Err(Failure::Execution(format!(
            "Specified cwd '{}' either not absolute or does not exist",
            folder.display()
        )));
    }
    let background = call.flag("bg")?.unwrap_or(false);
    if background && timeout.is_some() {
        return Err(Failure::Invocation(
            "a command in the background (bg) has no timeout".to_owned(),
        ));
    }
    let command = Command {
        argv,
        folder,
        user: call.text("runas")?,
        umask: umask(call)?,
        background,
        environment: environment(call)?,
        clean_environment: call.flag("clean_env")?.unwrap_or(false),
        input: call.text("stdin")?.unwrap_or_default().into_bytes(),
        timeout,
        merged: wanted != Wanted::Apart,
        discards_output: wanted == Wanted::Nothing,
    };
    let asked = Asked {
        seconds: timeout.unwrap_or_default().as_secs_f64().ceil() as u64,
        shown,
        strip: call.flag("rstrip")?.unwrap_or(true),
        ignore_retcode: call.flag("ignore_retcode")?.unwrap_or(false),
    };
    match command.run(call.host, call.job) {
        Ok(done) => Ok((asked, done)),
        Err(CommandError::Stopped) => Err(Failure::Interrupted),
        Err(CommandError::Ended(ending)) => Err(Failure::Ended(ending)),
        Err(error) => Err(Failure::Execution(error.to_string())),
    }
}

/// Parses `umask`, an octal number. As in Salt, 0 is refused: it would let everybody write to new files.
fn umask(call: &Call<'_>) -> Result<Option<u32>, Failure> {
    let Some(text) = call.text("umask")? else {
        return Ok(None);
    };
    match u32::from_str_radix(&text, 8) {
        Ok(mask @ 1..=0o777) => Ok(Some(mask)),
        Ok(0) => Err(Failure::Invocation(
            "a umask of zero is not allowed".to_owned(),
        )),
        _ => Err(Failure::Invocation(format!(
            "umask is an octal number up to 777, not {text:?}"
        ))),
    }
}

/// Returns the words to run, and the command as it was typed.
fn command_line(call: &Call<'_>) -> Result<(Vec<String>, String), Failure> {
    let without_shell = call.flag("python_shell")? == Some(false);
    if let Some(Value::List(parts)) = call.value("cmd") {
        let words: Option<Vec<String>> = parts.iter().map(scalar_text).collect();
        let words = words.ok_or_else(|| {
            Failure::Arguments("a list of arguments is made of texts and numbers".to_owned())
        })?;
        let shown = words.join(" ");
        return Ok((words, shown));
    }
    let line = call.text("cmd")?.unwrap_or_default();
    if without_shell {
        let words = split(&line).map_err(|error| Failure::Execution(format!("{error}: {line}")))?;
        return Ok((words, line));
    }
    let shell = call.text("shell")?.unwrap_or_else(|| SHELL.to_owned());
    Ok((vec![shell, "-c".to_owned(), line.clone()], line))
}

/// Parses `env`: a mapping, a list of mappings, or a list of `NAME=value`. `None` as a value
/// removes the name from the environment.
fn environment(call: &Call<'_>) -> Result<Vec<(String, Option<String>)>, Failure> {
    let mut variables = Vec::new();
    let parts = match call.value("env") {
        None => return Ok(variables),
        Some(Value::List(parts)) => parts.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    let wrong = |what: &str| Failure::Arguments(format!("env: {what}"));
    for part in parts {
        match part {
            Value::Map(entries) => {
                for (name, value) in entries {
                    let value = match value {
                        Value::Null => None,
                        value => Some(scalar_text(value).ok_or_else(|| {
                            wrong(&format!(
                                "the value of {name:?} is neither text nor a number"
                            ))
                        })?),
                    };
                    variables.push((name.clone(), value));
                }
            }
            Value::Text(text) => {
                let (name, value) = text
                    .split_once('=')
                    .ok_or_else(|| wrong(&format!("expected NAME=value, not {text:?}")))?;
                variables.push((name.to_owned(), Some(value.to_owned())));
            }
            _ => return Err(wrong("expected a mapping, or a list of NAME=value")),
        }
    }
    let bad = |name: &str, value: &Option<String>| {
        name.is_empty()
            || name.contains(['=', '\0'])
            || value.as_ref().is_some_and(|value| value.contains('\0'))
    };
    if let Some((name, _)) = variables.iter().find(|(name, value)| bad(name, value)) {
        return Err(wrong(&format!("{name:?} cannot be set")));
    }
    Ok(variables)
}
