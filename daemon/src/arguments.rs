//! The command line of a daemon.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, Command, value_parser};
use saline_config::{LogLevel, Logging};
use saline_protocol::transport::Registry;

use crate::versions_report;

/// The command line of a daemon, with Salt's names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arguments {
    /// `-c`, `--config-dir`: `/etc/saline`
    pub config_dir: PathBuf,
    /// `-l`, `--log-level`: over the file's.
    pub log_level: Option<LogLevel>,
    /// `--pid-file`: over the file's.
    pub pid_file: Option<PathBuf>,
    /// The task that the command line asks for.
    pub task: Task,
}

/// The tasks of a daemon's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Run the daemon.
    Run,
    /// `--check`: check the configuration.
    Check,
    /// `--health`: ask the running daemon.
    Health,
}

impl Arguments {
    /// Puts what the command line says about the log over what the files say.
    pub fn override_logging(&self, logging: &mut Logging) {
        if let Some(level) = self.log_level {
            (logging.level, logging.file_level) = (level, None);
        }
    }
}

/// The layout of the help.
const HELP: &str = "Usage: {usage}\n\n{about}\n\n{all-args}\n";

/// The heading of the options that ask something instead of running the daemon.
const QUESTIONS: &str = "Instead of running";

/// Returns the command line of a daemon, for the parser and for what is written from it.
pub fn command_line(program: &'static str, about: &'static str) -> Command {
    Command::new(program)
        .about(about)
        .help_template(HELP)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(true)
        .arg(
            Arg::new("config-dir")
                .short('c')
                .long("config-dir")
                .value_name("DIR")
                .default_value("/etc/saline")
                .value_parser(value_parser!(PathBuf))
                .help("The folder of the configuration"),
        )
        .arg(
            Arg::new("log-level")
                .short('l')
                .long("log-level")
                .value_name("LEVEL")
                .value_parser(|text: &str| text.parse::<LogLevel>())
                .help("quiet, critical, error, warning, info, profile, debug, trace, garbage or all"),
        )
        .arg(
            Arg::new("pid-file")
                .long("pid-file")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Where to write the process id"),
        )
        .arg(
            Arg::new("check")
                .long("check")
                .help_heading(QUESTIONS)
                .action(ArgAction::SetTrue)
                .conflicts_with("health")
                .help("Check the configuration, the keys and the folders, and exit: 0 if a daemon can start \
                       with them, 1 with a line that says what is wrong"),
        )
        .arg(
            Arg::new("health")
                .long("health")
                .help_heading(QUESTIONS)
                .action(ArgAction::SetTrue)
                .help("Ask the running daemon how it is, print that as JSON, and exit: 0 if it is well, 1 if it names a \
                       problem, 2 if none answers"),
        )
        // Init scripts of Salt give it.
        .arg(
            Arg::new("daemon")
                .short('d')
                .long("daemon")
                .action(ArgAction::SetTrue)
                .hide(true),
        )
        .arg(
            Arg::new("versions-report")
                .short('V')
                .long("versions-report")
                .help_heading(QUESTIONS)
                .action(ArgAction::SetTrue)
                .help("Print the versions of the program, its protocol, its transports and this system, and exit"),
        )
        .arg(
            Arg::new("version")
                .long("version")
                .help_heading(QUESTIONS)
                .action(ArgAction::Version)
                .help("Print the version and exit"),
        )
}

/// Parses `arguments`, of which the first is the program's name.
///
/// # Errors
/// The exit code to end with: 0 after `--help`, `--version` or `--versions-report`, whose text has been printed, and
/// Salt's 64 for an unknown option, which has been reported on the standard error output.
pub fn parse(
    program: &'static str,
    about: &'static str,
    registry: &Registry,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Arguments, ExitCode> {
    match command_line(program, about).try_get_matches_from(arguments) {
        Ok(matches) if matches.get_flag("daemon") => {
            // As below.
            let _ = writeln!(
                io::stderr(),
                "{program} does not daemonize: start it without -d, under systemd or another service manager"
            );
            Err(ExitCode::from(64))
        }
        Ok(matches) if matches.get_flag("versions-report") => {
            // As below.
            let _ = writeln!(io::stdout(), "{}", versions_report(program, registry));
            Err(ExitCode::SUCCESS)
        }
        Ok(matches) => Ok(Arguments {
            config_dir: matches
                .get_one::<PathBuf>("config-dir")
                .cloned()
                .unwrap_or_else(|| PathBuf::from("/etc/saline")),
            log_level: matches.get_one::<LogLevel>("log-level").copied(),
            pid_file: matches.get_one::<PathBuf>("pid-file").cloned(),
            task: match (matches.get_flag("check"), matches.get_flag("health")) {
                (true, _) => Task::Check,
                (_, true) => Task::Health,
                _ => Task::Run,
            },
        }),
        Err(error) => {
            // Nothing can be done about a standard output that is closed.
            let _ = error.print();
            Err(if error.use_stderr() {
                ExitCode::from(64)
            } else {
                ExitCode::SUCCESS
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, ExitCode> {
        parse(
            "saline-test",
            "",
            &Registry::new(),
            words.iter().map(OsString::from),
        )
    }

    #[test]
    fn salts_options_are_read() {
        let arguments = parsed(&["x", "-c", "/tmp/c", "-l", "debug", "--pid-file", "/p"]).unwrap();
        assert_eq!(arguments.config_dir, PathBuf::from("/tmp/c"));
        assert_eq!(arguments.log_level, Some(LogLevel::Debug));
        assert_eq!(arguments.pid_file, Some(PathBuf::from("/p")));
        assert_eq!(
            parsed(&["x"]).unwrap().config_dir,
            PathBuf::from("/etc/saline")
        );
        assert_eq!(arguments.task, Task::Run);
        assert_eq!(parsed(&["x", "--check"]).unwrap().task, Task::Check);
        assert_eq!(parsed(&["x", "--health"]).unwrap().task, Task::Health);
        assert!(parsed(&["x", "--check", "--health"]).is_err());
        assert!(parsed(&["x", "--nosuch"]).is_err());
        assert!(parsed(&["x", "-l", "loud"]).is_err());
        assert!(parsed(&["x", "-d"]).is_err());
    }
}
