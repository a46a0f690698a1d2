//! The options about the process of a command: its log, and its user.

use std::path::PathBuf;

use clap::Args;
use saline_config::{LogLevel, Logging};

/// The options about the process of a command.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProcessOptions {
    /// Append the log of this command to this file, and print none on the standard error output.
    #[arg(long, value_name = "LOG_FILE")]
    log_file: Option<PathBuf>,

    /// Log level of --log-file. Default: that of --log-level, or warning.
    #[arg(long, value_name = "LOG_LEVEL", requires = "log_file")]
    log_file_level: Option<LogLevel>,

    /// Run as this user (root only). Default for root: the owner of the master's pki_dir; for saline-call and
    /// --gen-keys, root.
    #[arg(short = 'u', long, value_name = "USER")]
    pub(crate) user: Option<String>,
}

impl ProcessOptions {
    /// Returns the logging settings of a command with this `--log-level`. The configuration's `log_level` and `log_file`
    /// are for the daemon and do not apply.
    pub(crate) fn logging(&self, level: Option<LogLevel>) -> Logging {
        let mut logging = Logging::default();
        if let Some(level) = level {
            logging.level = level;
        }
        logging.file_level = self.log_file_level;
        logging.file.clone_from(&self.log_file);
        logging
    }
}
