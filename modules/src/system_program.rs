//! Programs of the system that functions leave work to. They get words, never a line for a shell, and a name or a value of an
//! operator is never taken for an option: functions check it, or put it behind `--`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Access;
use saline_functions::Failure;

use crate::JobContext;
use crate::command::Command;

/// Where programs are that a minion may not have in its PATH.
const FOLDERS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How long a program may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The end of a program.
#[derive(Debug)]
pub(crate) struct ProgramEnd {
    /// The exit code.
    pub retcode: i64,
    /// The standard output.
    pub stdout: String,
    /// The standard error output.
    pub stderr: String,
}

/// Returns the path of a program.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let own = std::env::var("PATH").unwrap_or_default();
    let folders = own.split(':').chain(FOLDERS.split(':'));
    folders
        .filter(|folder| folder.starts_with('/'))
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok())
}

/// Returns the first of these programs that the machine lacks.
pub(crate) fn missing_program(names: &[&str]) -> Option<String> {
    let missing = names.iter().find(|name| find_program(name).is_none());
    missing.map(|name| (*name).to_owned())
}

/// Returns what a program said in several lines as one, for an error: without the indentation of lines and without empty ones.
pub(crate) fn in_one_line<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let lines = lines.into_iter().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

impl JobContext<'_> {
    /// Runs a program of the system to its end, in the C locale.
    ///
    /// # Errors
    /// When there is no such program, when it cannot be started, when it takes too long, and when the job is ended.
    pub(crate) fn program(&self, words: &[&str], input: &str) -> Result<ProgramEnd, Failure> {
        let name = words.first().copied().unwrap_or_default();
        let program = find_program(name)
            .ok_or_else(|| Failure::Execution(format!("this machine has no {name}")))?;
        let mut argv = vec![program.display().to_string()];
        argv.extend(words.iter().skip(1).map(|word| (*word).to_owned()));
        let command = Command {
            argv,
            environment: vec![
                ("LC_ALL".to_owned(), Some("C".to_owned())),
                ("PATH".to_owned(), Some(FOLDERS.to_owned())),
            ],
            input: input.as_bytes().to_vec(),
            timeout: Some(TIMEOUT),
            folder: Some("/".into()),
            ..Command::default()
        };
        let finished = self.run(&command)?;
        if finished.timed_out {
            let seconds = TIMEOUT.as_secs();
            return Err(Failure::Execution(format!(
                "{name} was ended, since it took longer than {seconds} s"
            )));
        }
        let text = |output: crate::command::Output| {
            let bytes = output.into_bytes().map_err(Failure::Execution)?;
            Ok::<_, Failure>(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(ProgramEnd {
            retcode: finished.retcode,
            stdout: text(finished.stdout)?,
            stderr: text(finished.stderr)?,
        })
    }

    /// Runs a program of the system, and returns its standard output.
    ///
    /// # Errors
    /// As [`program`](Self::program), and when the program fails: what it said.
    pub(crate) fn succeed(&self, words: &[&str], input: &str) -> Result<String, Failure> {
        let end = self.program(words, input)?;
        if end.retcode == 0 {
            return Ok(end.stdout);
        }
        let said = format!("{}\n{}", end.stderr, end.stdout);
        let name = words.first().copied().unwrap_or_default();
        let said = match in_one_line(said.lines()) {
            said if said.is_empty() => format!("it ended with {}", end.retcode),
            said => said,
        };
        Err(Failure::Execution(format!("{name} failed: {said}")))
    }
}

#[cfg(test)]
mod tests {
    use super::in_one_line;

    #[test]
    fn an_error_has_no_line_breaks_and_no_indentation() {
        let said = "mount: /mnt: wrong fs type.\n       dmesg(1) may have more.\n\n";
        let line = "mount: /mnt: wrong fs type.; dmesg(1) may have more.";
        assert_eq!(in_one_line(said.lines()), line);
        assert_eq!(in_one_line(" \n\n".lines()), "");
    }
}
