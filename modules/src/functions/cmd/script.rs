//! Scripts: a file is run with the interpreter that its first line names, from a copy that is removed afterwards.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use saline_functions::{BoundArguments, Failure, Mapping, Parameters, function, parameters};
use tempfile::TempDir;

use super::arguments::{AnyOf, CommandLine, Environment, Umask, Words};
use super::command_parameters::{CommandParameters, ReturnedOutput};
use crate::master_files::{MAX_SCRIPT, MasterScript, TemplateEngine};
use crate::{JobContext, Outcome, Prepared};

/// The largest script, in bytes.
const MAX_SCRIPT_BYTES: u64 = MAX_SCRIPT as u64;

/// The beginning of the URL of a file that the master serves.
const FILE_SERVER: &str = "salt://";

/// The first bytes of a compiled program.
const ELF: &[u8] = b"\x7fELF";

/// The parameters of a script, in the order of Salt's `cmd.script`.
#[parameters]
#[allow(
    clippy::struct_excessive_bools,
    reason = "an operator names each of them"
)]
pub(super) struct Script {
    source: String,
    args: Option<Words>,
    cwd: Option<String>,
    #[default("")]
    stdin: String,
    runas: Option<String>,
    group: Option<String>,
    #[default("/bin/sh")]
    shell: String,
    env: Option<Environment>,
    template: Option<TemplateEngine>,
    umask: Option<Umask>,
    #[default("quiet")]
    output_loglevel: String,
    #[default(false)]
    hide_output: bool,
    timeout: Option<Duration>,
    #[default(true)]
    reset_system_locale: bool,
    saltenv: Option<String>,
    #[default(false)]
    clean_env: bool,
    #[default(true)]
    rstrip: bool,
    #[default(false)]
    ignore_retcode: bool,
    success_retcodes: Option<AnyOf<i64>>,
    success_stdout: Option<AnyOf<String>>,
    success_stderr: Option<AnyOf<String>>,
    context: Option<Mapping>,
}

/// Runs a script and returns a mapping of its `pid`, `retcode`, `stdout` and `stderr`.
///
/// The script is copied to a file that only its user can read, and the copy is removed when the script has ended. The
/// interpreter that its first line names runs it, so the folder may be mounted with `noexec`; without such a line, `shell` does.
///
/// source
///     A script of the master, `salt://PATH`; the absolute path of one on the minion's machine; or the script itself, which begins
///     with `#!`.
///
/// args
///     The arguments of the script: a list, or a line that is split into words. No shell expands anything in it.
///
/// shell
///     The interpreter of a script whose first line names none.
///
/// template, context
///     `template=jinja` renders a script of the master before it runs, as `cp.get_template` does. `context` is a mapping of variables
///     for it.
///
/// saltenv
///     The environment of a script of the master; `base` if it is not given.
///
/// The other parameters are those of `cmd.run`.
///
/// CLI Example:
///
///     saline '*' cmd.script salt://scripts/report.sh 'weekly --quiet'
///     saline '*' cmd.script /usr/local/lib/cleanup 'days=30 "/srv/old files"' runas=www-data
///     saline '*' cmd.script "$(cat report.py)" stdin='some input'
#[function(own_process)]
pub(super) fn script(
    job: &JobContext<'_>,
    #[parameters] script: Script,
) -> Result<Outcome, Failure> {
    let (command, _copy) = script.copied(job)?;
    command.all(job)
}

/// Runs a script as `cmd.script` does, and returns its retcode; its output is thrown away.
///
/// CLI Example:
///
///     saline '*' cmd.script_retcode /usr/local/lib/is-clean
#[function(own_process)]
pub(super) fn script_retcode(
    job: &JobContext<'_>,
    #[parameters] script: Script,
) -> Result<Outcome, Failure> {
    let (command, _copy) = script.copied(job)?;
    command.retcode_alone(job)
}

/// Runs code with an interpreter, and returns what it prints.
///
/// lang
///     The interpreter: the name of a program that runs a file, such as `python3`, or its absolute path.
///
/// code
///     The code.
///
/// args
///     The arguments of the code: a list, or a line that is split into words.
///
/// CLI Example:
///
///     saline '*' cmd.exec_code python3 'import sys; print(sys.version)'
#[function(own_process)]
pub(super) fn exec_code(
    job: &JobContext<'_>,
    lang: String,
    code: String,
    cwd: Option<String>,
    args: Option<Words>,
) -> Result<Outcome, Failure> {
    let (command, _copy) = code_of(&lang, &code, cwd, args)?;
    let done = command.execute(job, ReturnedOutput::Merged)?;
    Ok(command.outcome(done))
}

/// Runs code as `cmd.exec_code` does, and returns a mapping of its `pid`, `retcode`, `stdout` and `stderr`.
///
/// CLI Example:
///
///     saline '*' cmd.exec_code_all perl 'print $^V'
#[function(own_process)]
pub(super) fn exec_code_all(
    job: &JobContext<'_>,
    lang: String,
    code: String,
    cwd: Option<String>,
    args: Option<Words>,
) -> Result<Outcome, Failure> {
    let (command, _copy) = code_of(&lang, &code, cwd, args)?;
    command.all(job)
}

impl Script {
    /// Copies the script, and returns the command that runs the copy. The copy is removed when it is dropped.
    fn copied(self, job: &JobContext<'_>) -> Result<(CommandParameters, ScriptCopy), Failure> {
        let contents = match self.of_master()? {
            None => contents_of(&self.source)?,
            Some(script) => match job.host.prepared.get().and_then(|all| all.get(&script)) {
                Some(prepared) => prepared?,
                // The function runs in the minion's process.
                None => script.read(job)?,
            },
        };
        let copy = ScriptCopy::of(&contents, self.runas.as_deref())?;
        let mut words = interpreter(&contents, &self.shell)?;
        words.push(copy.path()?);
        words.extend(self.args.clone().unwrap_or_default().0);
        Ok((self.command(words), copy))
    }

    /// Returns the script of the master that the source names; none if it names none.
    ///
    /// # Errors
    /// When another script is to be rendered.
    fn of_master(&self) -> Result<Option<MasterScript>, Failure> {
        let is_served = self.source.starts_with(FILE_SERVER);
        if !is_served && self.template.is_some() {
            return Err(Failure::Invocation(
                "template: only scripts of the master (salt://) are rendered".to_owned(),
            ));
        }
        let context = self.context.as_ref();
        Ok(is_served.then(|| {
            MasterScript::new(
                &self.source,
                self.saltenv.as_deref(),
                self.template,
                context.unwrap_or(&Mapping::new()),
            )
        }))
    }

    fn command(self, words: Vec<String>) -> CommandParameters {
        CommandParameters {
            cmd: CommandLine::Words(words),
            cwd: self.cwd,
            stdin: self.stdin,
            runas: self.runas,
            group: self.group,
            shell: self.shell,
            python_shell: false,
            env: self.env,
            clean_env: self.clean_env,
            rstrip: self.rstrip,
            umask: self.umask,
            output_loglevel: self.output_loglevel,
            hide_output: self.hide_output,
            timeout: self.timeout,
            reset_system_locale: self.reset_system_locale,
            ignore_retcode: self.ignore_retcode,
            bg: false,
            prepend_path: None,
            success_retcodes: self.success_retcodes,
            success_stdout: self.success_stdout,
            success_stderr: self.success_stderr,
        }
    }
}

/// Gets the script of the master that a call of `cmd.script` runs: its process cannot.
///
/// # Errors
/// When the job is ended or the minion stops meanwhile.
pub(in crate::functions) fn prepare(
    job: &JobContext<'_>,
    mut arguments: BoundArguments,
    prepared: &mut Prepared,
) -> Result<(), Failure> {
    // Arguments that do not fit are refused by the function.
    let script = Script::take(&mut arguments).ok();
    match script.and_then(|script| script.of_master().ok().flatten()) {
        Some(script) => prepared.add(job, script),
        None => Ok(()),
    }
}

fn code_of(
    lang: &str,
    code: &str,
    cwd: Option<String>,
    args: Option<Words>,
) -> Result<(CommandParameters, ScriptCopy), Failure> {
    if lang.is_empty() || lang.starts_with('-') || lang.contains(char::is_whitespace) {
        return Err(Failure::Invocation(format!(
            "lang: {lang:?} is not the name or the path of an interpreter"
        )));
    }
    let copy = ScriptCopy::of(code.as_bytes(), None)?;
    let mut words = vec![lang.to_owned(), copy.path()?];
    words.extend(args.unwrap_or_default().0);
    let script = Script {
        source: String::new(),
        args: None,
        cwd,
        stdin: String::new(),
        runas: None,
        group: None,
        shell: String::new(),
        env: None,
        template: None,
        umask: None,
        output_loglevel: String::new(),
        hide_output: false,
        timeout: None,
        reset_system_locale: true,
        saltenv: None,
        clean_env: false,
        rstrip: true,
        ignore_retcode: false,
        success_retcodes: None,
        success_stdout: None,
        success_stderr: None,
        context: None,
    };
    Ok((script.command(words), copy))
}

/// Returns the script that a source names.
fn contents_of(source: &str) -> Result<Vec<u8>, Failure> {
    if source.starts_with("#!") {
        return Ok(source.as_bytes().to_vec());
    }
    let path = Path::new(source);
    if !path.is_absolute() {
        return Err(Failure::Invocation(format!(
            "source: {:?} is neither a file of the master (salt://), nor an absolute path, nor a script that begins with \"#!\"",
            shortened(source)
        )));
    }
    read(path)
        .map_err(|error| Failure::Execution(format!("cannot read {}: {error}", path.display())))
}

fn shortened(source: &str) -> String {
    source.chars().take(80).collect()
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    // A pipe would keep the job waiting.
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut contents = Vec::new();
    fs::File::open(path)?
        .take(MAX_SCRIPT_BYTES + 1)
        .read_to_end(&mut contents)?;
    match contents.len() as u64 > MAX_SCRIPT_BYTES {
        true => Err(std::io::Error::other("it has more than 64 MiB")),
        false => Ok(contents),
    }
}

/// Returns the words that stand before the path of a script: its interpreter, as the kernel reads the first line.
fn interpreter(contents: &[u8], shell: &str) -> Result<Vec<String>, Failure> {
    if contents.starts_with(ELF) {
        return Ok(Vec::new());
    }
    let Some(line) = contents.strip_prefix(b"#!") else {
        return Ok(vec![shell.to_owned()]);
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line.trim_ascii());
    let (program, argument) = match line.split_once([' ', '\t']) {
        Some((program, argument)) => (program, Some(argument.trim())),
        None => (&*line, None),
    };
    if program.is_empty() {
        return Err(Failure::Execution(
            "the first line of the script names no interpreter behind \"#!\"".to_owned(),
        ));
    }
    let words = std::iter::once(program).chain(argument);
    Ok(words.map(str::to_owned).collect())
}

/// The copy of a script, which only its user can read.
struct ScriptCopy {
    folder: TempDir,
}

/// The name of the copy in its folder.
const NAME: &str = "script";

impl ScriptCopy {
    fn of(contents: &[u8], runas: Option<&str>) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::Execution(format!("cannot keep a copy of the script: {error}"))
        };
        let folder = tempfile::Builder::new().prefix(".saline-script-").tempdir();
        let copy = Self {
            folder: folder.map_err(failed)?,
        };
        let path = copy.folder.path().join(NAME);
        fs::write(&path, contents).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).map_err(failed)?;
        if let Some(user) = runas.filter(|_| rustix::process::geteuid().is_root()) {
            let found = nix::unistd::User::from_name(user).ok().flatten();
            // The command says that there is no such user.
            if let Some(found) = found {
                let (uid, gid) = (found.uid.as_raw(), found.gid.as_raw());
                chown(&path, Some(uid), Some(gid)).map_err(failed)?;
                // The user reaches the file through the folder, and can put nothing in its place.
                let enters = fs::Permissions::from_mode(0o711);
                fs::set_permissions(copy.folder.path(), enters).map_err(failed)?;
            }
        }
        Ok(copy)
    }

    fn path(&self) -> Result<String, Failure> {
        let path = self.folder.path().join(NAME);
        let text = OsStr::to_str(path.as_os_str()).map(str::to_owned);
        text.ok_or_else(|| {
            let shown = String::from_utf8_lossy(path.as_os_str().as_bytes());
            Failure::Execution(format!("TMPDIR must be UTF-8: {shown}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_interpreter() {
        let words = |text: &str| interpreter(text.as_bytes(), "/bin/sh").unwrap();
        assert_eq!(words("#!/bin/bash\necho"), ["/bin/bash"]);
        assert_eq!(
            words("#! /usr/bin/env python3 -u\n"),
            ["/usr/bin/env", "python3 -u"]
        );
        assert_eq!(words("#!/bin/sh -e\r\n"), ["/bin/sh", "-e"]);
        assert_eq!(words("echo hi"), ["/bin/sh"]);
        assert_eq!(words("\x7fELF…"), [""; 0]);
        assert!(interpreter(b"#!\n", "/bin/sh").is_err());
    }
}
