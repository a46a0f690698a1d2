//! `cmd`: runs commands.

mod arguments;
mod command_parameters;
mod programs;
mod script;

pub(in crate::functions) use script::prepare as prepare_script;

use saline_data::Value;
use saline_functions::{Failure, function};

use crate::{Functions, JobContext, Outcome};
use command_parameters::{CommandParameters, ReturnedOutput};

pub(super) const FUNCTIONS: Functions = &[
    &RUN,
    &RUN_ALL,
    &RUN_BG,
    &RUN_STDERR,
    &RUN_STDOUT,
    &RETCODE,
    &SHELL,
    &script::EXEC_CODE,
    &script::EXEC_CODE_ALL,
    &script::SCRIPT,
    &script::SCRIPT_RETCODE,
    &programs::HAS_EXEC,
    &programs::SHELLS,
    &programs::WHICH,
    &programs::WHICH_BIN,
];

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
/// group
///     The group that the command runs as, beside the groups of its user. Only a minion that runs as root can do this.
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
///     `True` gives the command the variables of `env`, the locale, and no others. Otherwise it also gets those for paths, user,
///     language, time zone and proxies of the minion, and those of the option `pass_environment`.
///
/// rstrip
///     `False` keeps white space at the end of the output.
///
/// umask
///     The umask of the command, an octal number.
///
/// output_loglevel, hide_output
///     `hide_output=True` leaves the output out of the return. The minion's log never shows a command or its output, so every
///     `output_loglevel` is the same as `quiet`.
///
/// timeout
///     A number of seconds. A command that runs longer is killed, with its process group. A process that left the
///     group (`setsid`) goes on.
///
/// reset_system_locale
///     The command gets `LC_ALL=C.UTF-8`, unless `env` sets a variable of the locale. `False` gives it the locale of the minion.
///
/// ignore_retcode
///     `True` reports success whatever the command's retcode is.
///
/// success_retcodes, success_stdout, success_stderr
///     Further retcodes that are a success, and outputs that are one whatever the retcode is: each a list, or a text with commas.
///     The retcode of such a command is 0.
///
/// prepend_path
///     Folders that are put in front of the command's `PATH`.
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
fn run(job: &JobContext<'_>, #[parameters] command: CommandParameters) -> Result<Outcome, Failure> {
    let done = command.execute(job, ReturnedOutput::Merged)?;
    Ok(command.outcome(done))
}

/// Runs a line in a shell, as `cmd.run` does, and returns its output. The parameters are those of `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.shell 'cat /proc/net/dev | tail -n +3 | wc -l'
#[function(own_process)]
fn shell(
    job: &JobContext<'_>,
    #[parameters] command: CommandParameters,
) -> Result<Outcome, Failure> {
    let command = command.in_shell();
    let done = command.execute(job, ReturnedOutput::Merged)?;
    Ok(command.outcome(done))
}

/// Starts a command and leaves it alone, as `cmd.run` does with `bg=True`. Returns a mapping with its `pid`. The parameters are
/// those of `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.run_bg 'sleep 60; systemctl restart networking'
#[function(own_process)]
fn run_bg(
    job: &JobContext<'_>,
    #[parameters] command: CommandParameters,
) -> Result<Outcome, Failure> {
    let command = command.in_background();
    let done = command.execute(job, ReturnedOutput::None)?;
    let pid = Value::from(u64::from(done.pid));
    Ok(Outcome::from(Value::map([("pid", pid)])))
}

/// Runs a command and returns a mapping of its `pid`, `retcode`, `stdout` and `stderr`. The parameters are those of
/// `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.run_all 'systemctl is-active sshd'
#[function(own_process)]
fn run_all(
    job: &JobContext<'_>,
    #[parameters] command: CommandParameters,
) -> Result<Outcome, Failure> {
    command.all(job)
}

/// Runs a command and returns its retcode; its output is thrown away. The parameters are those of `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.retcode 'test -f /var/run/reboot-required'
#[function(own_process)]
fn retcode(
    job: &JobContext<'_>,
    #[parameters] command: CommandParameters,
) -> Result<Outcome, Failure> {
    command.retcode_alone(job)
}

/// Runs a command and returns what it wrote to its standard output. The parameters are those of `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.run_stdout 'id -un'
#[function(own_process)]
fn run_stdout(
    job: &JobContext<'_>,
    #[parameters] command: CommandParameters,
) -> Result<Outcome, Failure> {
    let done = command.execute(job, ReturnedOutput::Separate)?;
    Ok(command.outcome(done))
}

/// Runs a command and returns what it wrote to its standard error. The parameters are those of `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.run_stderr 'ls /no/such/folder'
#[function(own_process)]
fn run_stderr(
    job: &JobContext<'_>,
    #[parameters] command: CommandParameters,
) -> Result<Outcome, Failure> {
    let done = command.execute(job, ReturnedOutput::Separate)?;
    Ok(command.outcome_of_errors(done))
}
