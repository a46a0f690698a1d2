//! Starts the log.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::sync::Mutex;

use saline_config::{LogLevel, Logging};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::{DefaultFields, Format, Full};
use tracing_subscriber::fmt::{SubscriberBuilder, time::SystemTime};

/// The log file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the log to {path}: {source}; log_file names it")]
pub struct LoggingError {
    path: String,
    source: std::io::Error,
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Quiet => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

fn lines(
    level: LogLevel,
) -> SubscriberBuilder<DefaultFields, Format<Full, SystemTime>, LevelFilter> {
    tracing_subscriber::fmt()
        .with_max_level(filter(level))
        .with_target(false)
}

/// Sends the log of this process to the file in `logging`, or to the standard error output. A
/// second call changes nothing.
///
/// # Errors
/// When the log file cannot be opened.
pub fn start(logging: &Logging) -> Result<(), LoggingError> {
    // An error means that a log stands already, as in a program that embeds a daemon.
    if let Some(path) = &logging.file {
        let open = || -> std::io::Result<File> {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            OpenOptions::new().create(true).append(true).open(path)
        };
        let file = open().map_err(|source| LoggingError {
            path: path.display().to_string(),
            source,
        })?;
        let _ = tracing::subscriber::set_global_default(
            lines(logging.level)
                .with_ansi(false)
                .with_writer(Mutex::new(file))
                .finish(),
        );
    } else {
        let _ = tracing::subscriber::set_global_default(
            lines(logging.level)
                .with_ansi(std::io::stderr().is_terminal())
                .with_writer(std::io::stderr)
                .finish(),
        );
    }
    Ok(())
}
