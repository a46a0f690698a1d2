//! The command lines of all programs, and the refusal of malformed ones.
//!
//! Options may stand anywhere, as in Salt; `--` ends them; a negative number is an argument.

mod about;
mod batch;
mod call;
mod cp;
mod key;
mod login;
mod process;
mod refusal;
mod run;
mod saline;
mod secret;
#[cfg(test)]
mod snapshots;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use saline_config::LogLevel;

use crate::output::{Format, Style};
use crate::screen::Screen;

pub(crate) use about::{About, AboutOptions};
pub(crate) use call::{CallArguments, CallOutput};
pub(crate) use cp::CpArguments;
pub(crate) use key::{KeyArguments, KeyListing, KeyVerb, Selection, WantedToken};
pub(crate) use login::{Credentials, LoginOptions};
pub(crate) use process::ProcessOptions;
pub(crate) use refusal::{Refused, read};
pub(crate) use run::{RunArguments, STATE_EVENT};
pub(crate) use saline::SalineArguments;
pub(crate) use target::TargetOptions;

/// The layout of every help text.
const HELP: &str = "Usage: {usage}\n\n{about}\n\n{all-args}\n";

/// The largest indentation of an output, in spaces.
const MAX_INDENT: i32 = 64;

/// The options that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommonOptions {
    /// The folder of the configuration.
    #[arg(
        short = 'c',
        long = "config-dir",
        value_name = "CONFIG_DIR",
        default_value = "/etc/saline"
    )]
    pub(crate) config_dir: PathBuf,

    /// Log level for the standard error output: quiet, critical, error, warning,
    /// info, profile, debug, trace, garbage, all.
    #[arg(short = 'l', long = "log-level", value_name = "LOG_LEVEL")]
    pub(crate) log_level: Option<LogLevel>,

    #[command(flatten)]
    pub(crate) process: ProcessOptions,
}

/// Reads a time above zero.
fn time_span(text: &str) -> Result<Duration, String> {
    let span = saline_data::time_span::parse(text).filter(|span| !span.is_zero());
    span.ok_or_else(|| {
        format!("'{text}' is not a time above zero; write 5, 0.5, 90s, 15m, 1h or 2d")
    })
}

/// The options about printing.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputOptions {
    /// Print returns in this format.
    #[arg(long = "out", alias = "output", value_name = "OUTPUT")]
    out: Option<Format>,

    /// Write the output to this file instead of the standard output. A new file is readable by its owner alone; a symbolic link
    /// is not followed, and a file that another user can change is refused.
    #[arg(long = "out-file", alias = "output-file", value_name = "FILE")]
    out_file: Option<PathBuf>,

    /// Append to the file of --out-file; otherwise it is replaced.
    #[arg(long = "out-file-append", alias = "output-file-append")]
    out_file_append: bool,

    /// Indent the output by this number of spaces; below zero it is one line. For json and yaml.
    #[arg(long = "out-indent", alias = "output-indent", value_name = "SPACES",
        allow_negative_numbers = true, value_parser = spaces)]
    out_indent: Option<i32>,

    /// Print no colours, as the environment variable NO_COLOR asks too.
    #[arg(long = "no-color", alias = "no-colour")]
    no_color: bool,

    /// Print colours also where the output is no terminal.
    #[arg(long = "force-color", alias = "force-colour")]
    force_color: bool,
}

impl OutputOptions {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        self.format_or(Format::default())
    }

    /// Returns the output format, which is `default` unless another one was asked for.
    pub(crate) fn format_or(&self, default: Format) -> Format {
        self.out.unwrap_or(default)
    }

    /// Whether the output goes to a terminal.
    pub(crate) fn is_on_terminal(&self, screen: &Screen<'_>) -> bool {
        screen.terminal && self.out_file.is_none()
    }

    /// Returns the style for the standard output of `screen`, or for the file that was named.
    pub(crate) fn style(&self, screen: &Screen<'_>) -> Style {
        let unwanted = saline_daemon::logging::colours_are_unwanted();
        self.style_of(self.is_on_terminal(screen), unwanted)
    }

    /// Returns the style: coloured on a terminal unless the environment says that colours are
    /// `unwanted`, or where they are forced.
    fn style_of(&self, terminal: bool, unwanted: bool) -> Style {
        Style {
            colour: (self.force_color || (terminal && !unwanted)) && !self.no_color,
            terminal,
            indent: self.out_indent,
        }
    }

    /// Makes `screen` print the output into the file that was named, if one was.
    ///
    /// # Errors
    /// One line, when the file cannot be opened.
    pub(crate) fn open_file(&self, screen: &mut Screen<'_>) -> Result<(), String> {
        let Some(path) = &self.out_file else {
            return match self.out_file_append {
                true => Err("ERROR: --out-file-append needs --out-file FILE".to_owned()),
                false => Ok(()),
            };
        };
        let mut options = saline_private_files::options();
        let opened = saline_private_files::open(
            path,
            // Nothing is cut off before the file is known to be nobody else's.
            options
                .create(true)
                .write(true)
                .append(self.out_file_append),
        );
        let emptied = opened.and_then(|file| {
            if !self.out_file_append && file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            Ok(file)
        });
        let file = emptied
            .map_err(|error| format!("ERROR: cannot write to {}: {error}", path.display()))?;
        screen.print_to(file);
        Ok(())
    }
}

/// Reads an indentation.
fn spaces(text: &str) -> Result<i32, String> {
    let spaces = text.parse().ok().filter(|spaces| *spaces <= MAX_INDENT);
    spaces.ok_or_else(|| {
        format!(
            "'{text}' is not a valid number of spaces, at most {MAX_INDENT}; a negative one prints one line"
        )
    })
}
