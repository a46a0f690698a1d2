//! Starts the log.

mod escaped_fields;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::IsTerminal;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use saline_config::{LogLevel, Logging};
use saline_protocol::private_files;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::{Format, Full};
use tracing_subscriber::fmt::{SubscriberBuilder, time::SystemTime};

use escaped_fields::EscapedFields;

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
) -> SubscriberBuilder<EscapedFields, Format<Full, SystemTime>, LevelFilter> {
    tracing_subscriber::fmt()
        .with_max_level(filter(level))
        .with_target(false)
        .fmt_fields(EscapedFields)
}

/// Sends the log of this process to the file in `logging`, or to the standard error output. A
/// second call changes nothing.
///
/// # Errors
/// When the log file cannot be opened.
pub fn start(logging: &Logging) -> Result<(), LoggingError> {
    // An error means that a log stands already, as in a program that embeds a daemon.
    if let Some(path) = &logging.file {
        let (file, open_to_others) = open(path).map_err(|source| LoggingError {
            path: path.display().to_string(),
            source,
        })?;
        let _ = tracing::subscriber::set_global_default(
            lines(logging.level)
                .with_ansi(false)
                .with_writer(Mutex::new(file))
                .finish(),
        );
        if let Some(folder) = open_to_others {
            tracing::warn!(
                "others can write to {}, so they can replace the log: chmod go-w it, or move log_file",
                folder.display()
            );
        }
    } else {
        let _ = tracing::subscriber::set_global_default(
            lines(logging.level)
                .with_ansi(std::io::stderr().is_terminal() && !colours_are_unwanted())
                .with_writer(std::io::stderr)
                .finish(),
        );
    }
    Ok(())
}

/// Whether the environment asks programs not to print colours (`NO_COLOR`, <https://no-color.org>).
pub fn colours_are_unwanted() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Opens the log file (0600), and makes the folder around it (0700) if it is missing. Returns also the
/// folder if others can put another file in the place of the log: many systems have such folders, so it
/// is no reason not to start.
fn open(path: &Path) -> std::io::Result<(File, Option<PathBuf>)> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    if folder == Path::new("/dev") {
        // Where containers log, as /dev/stdout, which is a link.
        return Ok((OpenOptions::new().append(true).open(path)?, None));
    }
    let mut options = private_files::options();
    let file = private_files::open(path, options.create(true).append(true))?;
    let open_to_others = private_files::is_open_to_others(folder)?;
    Ok((file, open_to_others.then(|| folder.to_owned())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_log_is_private_and_follows_no_link() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log/master");
        let (_file, open_to_others) = open(&path).unwrap();
        assert_eq!(open_to_others, None);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        let folder = path.parent().unwrap();
        assert_eq!(mode(folder), 0o700);

        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
        let (_file, open_to_others) = open(&path).unwrap();
        assert_eq!(open_to_others.as_deref(), Some(folder));

        let precious = place.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        std::fs::remove_file(&path).unwrap();
        symlink(&precious, &path).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }
}
