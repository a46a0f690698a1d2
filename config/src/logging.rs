//! The level and the file of the log.

use std::path::PathBuf;
use std::str::FromStr;

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

/// The level and the file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logging {
    /// `log_level`: `warning`
    pub level: LogLevel,
    /// `log_file`: none for the standard error output.
    pub file: Option<PathBuf>,
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            level: LogLevel::Warning,
            file: None,
        }
    }
}
