//! The command lines of all programs, and the refusal of malformed ones.
//!
//! Options may stand anywhere, as in Salt; `--` ends them; a negative number is an argument.

mod batch;
mod call;
mod key;
mod refusal;
mod run;
mod saline;
#[cfg(test)]
mod snapshots;
mod target;

use std::path::PathBuf;

use clap::Args;
use saline_config::LogLevel;

use crate::output::{Format, Style};

pub(crate) use call::{CallArguments, Wanted};
pub(crate) use key::{KeyArguments, KeyListing, KeyVerb, Selection};
pub(crate) use refusal::{Refused, read};
pub(crate) use run::RunArguments;
pub(crate) use saline::SalineArguments;
pub(crate) use target::TargetOptions;

/// The layout of every help text.
const HELP: &str = "Usage: {usage}\n\n{about}\n\nOptions:\n{options}\n";

/// The options that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommonOptions {
    /// Pass in an alternative configuration directory.
    #[arg(
        short = 'c',
        long = "config-dir",
        value_name = "CONFIG_DIR",
        default_value = "/etc/saline"
    )]
    pub(crate) config_dir: PathBuf,

    /// What is logged on the standard error output: quiet, error, warning, info, debug, trace.
    #[arg(short = 'l', long = "log-level", value_name = "LOG_LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
}

/// The options about printing.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputOptions {
    /// Print the output using the specified outputter.
    #[arg(long = "out", alias = "output", value_name = "OUTPUT")]
    out: Option<Format>,

    /// Disable all colored output.
    #[arg(long = "no-color", alias = "no-colour")]
    no_color: bool,

    /// Force colored output.
    #[arg(long = "force-color", alias = "force-colour")]
    force_color: bool,
}

impl OutputOptions {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        self.out.unwrap_or_default()
    }

    /// Returns the style: coloured if the standard output is a terminal or colours are forced.
    pub(crate) fn style(&self, terminal: bool) -> Style {
        Style {
            colour: (terminal || self.force_color) && !self.no_color,
            terminal,
        }
    }
}
