//! The level, the file and the lines of the log.

use std::path::PathBuf;
use std::str::FromStr;

use crate::LogFormat;

/// A level, with Salt's names; names without a level of their own mean the nearest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Quiet,
    /// `critical`, `error`
    Error,
    /// `warning`
    Warning,
    /// `info`: the walk of every job.
    Info,
    /// `debug`, `profile`
    Debug,
    /// `trace`, `garbage`, `all`
    Trace,
}

/// The name of a level is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown log level {0:?}; known are: quiet, critical, error, warning, info, profile, debug, trace, garbage, all"
)]
pub struct UnknownLevel(String);

impl FromStr for LogLevel {
    type Err = UnknownLevel;
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "quiet" => Self::Quiet,
            "critical" | "error" => Self::Error,
            "warning" | "warn" => Self::Warning,
            "info" => Self::Info,
            "debug" | "profile" => Self::Debug,
            "trace" | "garbage" | "all" => Self::Trace,
            _ => return Err(UnknownLevel(text.to_owned())),
        })
    }
}

/// The level, the file and the lines of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logging {
    /// `log_level`: `warning`
    pub level: LogLevel,
    /// `log_level_logfile`: none for `log_level`.
    pub file_level: Option<LogLevel>,
    /// `log_file`: none for the standard error output.
    pub file: Option<PathBuf>,
    /// `log_fmt_console`: `text`
    pub console_format: LogFormat,
    /// `log_fmt_logfile`: `text`
    pub file_format: LogFormat,
}

impl Logging {
    /// Returns the level of what is written.
    pub fn effective_level(&self) -> LogLevel {
        match (&self.file, self.file_level) {
            (Some(_), Some(level)) => level,
            _ => self.level,
        }
    }

    /// Returns the format of the lines.
    pub fn format(&self) -> &LogFormat {
        match self.file {
            Some(_) => &self.file_format,
            None => &self.console_format,
        }
    }
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            level: LogLevel::Warning,
            file_level: None,
            file: None,
            console_format: LogFormat::Text,
            file_format: LogFormat::Text,
        }
    }
}
