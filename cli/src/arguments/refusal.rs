//! The texts about a malformed command line: Salt's two lines, and exit code 64.

use std::error::Error as _;
use std::ffi::OsString;
use std::io;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Parser};

use crate::exit;
use crate::screen::Screen;

/// Salt's options that have no counterpart here yet. The refusal names them, so that an operator
/// does not look for a typing error.
const SALTS: &[&str] = &[
    "-R",
    "--range",
    "--output-diff",
    "--module-executors",
    "--executor-opts",
    "--return_config",
    "--return_kwargs",
    "-a",
    "--auth",
    "--eauth",
    "-T",
    "--make-token",
    "--username",
    "--password",
    "--state-output",
    "--state-verbose",
    "--hard-crash",
    "--no-parse",
    "--saltfile",
    "--gen-signature",
    "--priv",
    "--pub",
    "--signature-path",
    "--auto-create",
    "--preserve-minions",
    "--file-root",
    "--pillar-root",
    "--states-dir",
    "--module-dirs",
    "--refresh-grains-cache",
];

/// The text to be printed instead of carrying out a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The text on the standard output: the help or the version.
    pub(crate) out: String,
    /// The text on the standard error output.
    pub(crate) err: String,
    /// The exit code.
    pub(crate) code: u8,
}

impl Refused {
    /// Refuses an option: prints the usage and one line.
    pub(crate) fn usage(usage: &str, message: &str) -> Self {
        let name = usage.split_whitespace().next().unwrap_or("saline");
        Self {
            out: String::new(),
            err: format!("Usage: {usage}\n\n{name}: error: {message}\n"),
            code: exit::USAGE,
        }
    }

    /// Adds a line to the error about an option.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.err.push_str(hint);
        self.err.push('\n');
        self
    }

    /// Prints the text, and returns the exit code.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(crate) fn print(&self, screen: &mut Screen<'_>) -> io::Result<u8> {
        if !self.out.is_empty() {
            screen.raw(self.out.as_bytes())?;
        }
        if !self.err.is_empty() {
            screen.note(self.err.strip_suffix('\n').unwrap_or(&self.err));
        }
        Ok(self.code)
    }

    /// Refuses a command without its required arguments: prints the help and one line.
    pub(crate) fn incomplete<A: Parser>() -> Self {
        Self {
            out: A::command().render_help().to_string(),
            err: "\nIncomplete options passed.\n\n".to_owned(),
            code: exit::INCOMPLETE,
        }
    }
}

/// Parses `words`, of which the first is the program's name.
///
/// # Errors
/// The text to be printed if there is nothing to carry out, also for `--help` and `--version`.
pub(crate) fn read<A: Parser>(
    usage: &str,
    words: impl IntoIterator<Item = OsString>,
) -> Result<A, Refused> {
    A::try_parse_from(words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Refused {
            out: error.to_string(),
            err: String::new(),
            code: exit::GOOD,
        },
        _ => Refused::usage(usage, &message(&error, &A::command())),
    })
}

fn message(error: &clap::Error, command: &Command) -> String {
    let option = match error.get(ContextKind::InvalidArg) {
        // The option without the placeholder of its value.
        Some(ContextValue::String(text)) if text.starts_with("--") => {
            text.split([' ', '=', '[']).next().unwrap_or(text)
        }
        Some(ContextValue::String(text)) => text.split(' ').next().unwrap_or(text),
        Some(ContextValue::Strings(texts)) => texts.first().map_or("", String::as_str),
        _ => "",
    };
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    match error.kind() {
        ErrorKind::UnknownArgument if SALTS.contains(&option) => {
            format!("no such option: {option} (Salt has it, Saline does not)")
        }
        ErrorKind::UnknownArgument => match begun_by(option, command).as_slice() {
            [] | [_] => format!("no such option: {option}"),
            several => format!("ambiguous option: {option} ({}?)", several.join(", ")),
        },
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("{option} option requires 1 argument")
        }
        ErrorKind::InvalidValue => match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(valid)) => format!(
                "option {option}: invalid choice: '{value}' (choose from '{}')",
                valid.join("', '")
            ),
            _ => format!("option {option}: invalid value: '{value}'"),
        },
        ErrorKind::ValueValidation => match error.source() {
            Some(source) => format!("option {option}: {source}"),
            None => format!("option {option}: invalid value: '{value}'"),
        },
        ErrorKind::TooManyValues | ErrorKind::WrongNumberOfValues if !option.is_empty() => {
            format!("{option} option does not take a value")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = option.split(' ').next().unwrap_or(option);
            format!("option {missing} is missing, which another option needs")
        }
        ErrorKind::InvalidUtf8 => "the command line is not UTF-8".to_owned(),
        // Other errors of the parser: the first line says enough.
        _ => error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned(),
    }
}

/// Returns the long options that begin with `option`, which may be cut as long as it means one of them.
fn begun_by(option: &str, command: &Command) -> Vec<String> {
    let Some(beginning) = option.strip_prefix("--").filter(|name| !name.is_empty()) else {
        return Vec::new();
    };
    let names = command
        .get_arguments()
        .filter(|option| !option.is_hide_set());
    let mut names: Vec<String> = names
        .filter_map(clap::Arg::get_long)
        .filter(|name| name.starts_with(beginning))
        .map(|name| format!("--{name}"))
        .collect();
    names.sort_unstable();
    names
}
