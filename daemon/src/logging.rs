//! The log: its level, its lines and where they go, all of which a running daemon can change.

mod escaped_fields;
mod journal;
mod line_queue;
mod lines;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use saline_config::{LogLevel, Logging};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;

pub use journal::print_line;

use escaped_fields::EscapedFields;
use line_queue::{LineQueue, Sink};
use lines::{Lines, Reader};

/// The beginning of the targets of [notices](crate::notice).
const NOTICES: &str = "notice";

/// Logs a line that the operator asked for or waits for, such as that a connection is back: at the level `info`, and
/// also where only warnings are logged.
#[macro_export]
macro_rules! notice {
    ($($line:tt)*) => {
        ::tracing::info!(target: ::core::concat!("notice::", ::core::module_path!()), $($line)*)
    };
}

/// Returns the module of a line.
fn module(target: &str) -> &str {
    target.strip_prefix("notice::").unwrap_or(target)
}

/// The log cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoggingError {
    /// The log file cannot be opened.
    #[error("cannot write the log to {path}: {source}; name another log file")]
    File {
        /// The log file.
        path: String,
        /// The error of the file system.
        source: io::Error,
    },
    /// The thread that writes the log cannot be started.
    #[error("cannot start the thread of the log: {0}")]
    Thread(io::Error),
}

/// The log of this process. Its lines are written by a thread of its own. When this is dropped, those that wait
/// are written, and later ones are written by whoever logs them.
#[derive(Debug)]
pub struct Log {
    level: reload::Handle<Targets, Registry>,
    lines: Lines,
    queue: Arc<LineQueue>,
    thread: Option<JoinHandle<()>>,
    /// The folder of the log file that was warned of last, since others can write to it.
    warned_of: Mutex<Option<PathBuf>>,
}

/// Sends the log of this process to the file in `logging`, or to the standard error output. When there is a log
/// already, as in a program that embeds a daemon, it stays, and what is returned has no effect.
///
/// # Errors
/// When the log file cannot be opened.
pub fn start(logging: &Logging) -> Result<Log, LoggingError> {
    let (sink, open_to_others) = sink(logging)?;
    let lines = Lines::new(logging.format().clone(), reader(logging));
    let shared = lines.clone();
    let notice = Box::new(move |dropped, why: &str| shared.about_drops(dropped, why));
    let (queue, thread) = LineQueue::start(sink, notice).map_err(LoggingError::Thread)?;
    let (filter, level) = reload::Layer::new(filter(logging.effective_level()));
    let written = tracing_subscriber::fmt::layer()
        .fmt_fields(EscapedFields)
        .event_format(lines.clone())
        .with_writer(LineWriter(Arc::clone(&queue)));
    let log = Registry::default().with(filter).with(written);
    // An error means that there is a log already.
    let _ = tracing::subscriber::set_global_default(log);
    let warned_of = Mutex::default();
    warn_of_folder(&warned_of, open_to_others);
    Ok(Log {
        warned_of,
        level,
        lines,
        queue,
        thread: Some(thread),
    })
}

impl Log {
    /// Takes over another configuration, and reopens the file, since it may have been rotated.
    ///
    /// # Errors
    /// When the log file cannot be opened; nothing changes.
    pub fn reload(&self, logging: &Logging) -> Result<(), LoggingError> {
        let (sink, open_to_others) = sink(logging)?;
        self.queue.replace(sink);
        self.lines.set(logging.format().clone(), reader(logging));
        // An error means that the log is not this one.
        let _ = self.level.reload(filter(logging.effective_level()));
        warn_of_folder(&self.warned_of, open_to_others);
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A thread that hangs in a write ends with the process.
        if self.queue.end()
            && let Some(thread) = self.thread.take()
        {
            // An error means that it panicked, which was printed.
            let _ = thread.join();
        }
    }
}

/// Returns the filter of a level. A level that logs warnings logs [notices](crate::notice) too.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Quiet => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let all = Targets::new().with_default(level);
    match level == LevelFilter::WARN {
        true => all.with_target(NOTICES, LevelFilter::INFO),
        false => all,
    }
}

/// Returns who reads the lines.
fn reader(logging: &Logging) -> Reader {
    if logging.file.is_some() {
        Reader::Plain
    } else if io::stderr().is_terminal() && !colours_are_unwanted() {
        Reader::Terminal
    } else if journal::takes_standard_error() {
        Reader::Journal
    } else {
        Reader::Plain
    }
}

/// Queues each line of the log.
#[derive(Debug, Clone)]
struct LineWriter(Arc<LineQueue>);

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens what the lines go to. Returns also the folder of the log file if others can write to it.
fn sink(logging: &Logging) -> Result<(Sink, Option<PathBuf>), LoggingError> {
    let Some(path) = &logging.file else {
        return Ok((Box::new(io::stderr()), None));
    };
    match open(path) {
        Ok((file, open_to_others)) => Ok((Box::new(file), open_to_others)),
        Err(source) => Err(LoggingError::File {
            path: path.display().to_string(),
            source,
        }),
    }
}

/// Warns of the folder, unless that was done the last time too: logs are rotated every day.
fn warn_of_folder(warned_of: &Mutex<Option<PathBuf>>, open_to_others: Option<PathBuf>) {
    let mut warned_of = warned_of.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = *warned_of != open_to_others;
    warned_of.clone_from(&open_to_others);
    if let Some(folder) = open_to_others.filter(|_| is_new) {
        tracing::warn!(
            "others can write to {}, so they can replace the log: chmod go-w it, or move log_file",
            folder.display()
        );
    }
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
    let mut options = saline_private_files::options();
    let file = saline_private_files::open(path, options.create(true).append(true))?;
    let open_to_others = saline_private_files::is_open_to_others(folder)?;
    Ok((file, open_to_others.then(|| folder.to_owned())))
}

#[cfg(test)]
mod tests {
    use std::io::Seek;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use saline_config::LogFormat;

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

    #[test]
    fn a_notice_is_no_warning_and_is_shown_with_warnings() {
        let logged = |level, format: LogFormat, reader| {
            let mut file = tempfile::tempfile().unwrap();
            let written = tracing_subscriber::fmt::layer()
                .fmt_fields(EscapedFields)
                .event_format(Lines::new(format, reader))
                .with_writer(Mutex::new(file.try_clone().unwrap()));
            let log = Registry::default().with(filter(level)).with(written);
            tracing::subscriber::with_default(log, || {
                tracing::info!("a step");
                crate::notice!("is {}", "back");
            });
            file.rewind().unwrap();
            io::read_to_string(file).unwrap()
        };
        let format = |text: &str| text.parse::<LogFormat>().unwrap();
        let plain = "%(levelname)s %(name)s %(message)s";
        let at = |level| logged(level, format(plain), Reader::Plain);
        let notice = concat!("INFO ", module_path!(), " is back\n");
        assert_eq!(at(LogLevel::Warning), notice);
        assert_eq!(
            at(LogLevel::Info),
            concat!("INFO ", module_path!(), " a step\n").to_owned() + notice
        );
        assert_eq!(at(LogLevel::Error), "");
        assert_eq!(at(LogLevel::Quiet), "");
        let journal = logged(LogLevel::Info, LogFormat::Text, Reader::Journal);
        assert_eq!(journal, "<6>a step\n<6>is back\n");
    }
}
