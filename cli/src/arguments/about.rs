//! The options that describe the program instead of running it.

use clap::{ArgAction, Args};

/// The options that describe the program.
#[derive(Debug, Clone, Args)]
pub(crate) struct AboutOptions {
    /// Print the configuration, with the defaults of what it does not set, and exit.
    #[arg(long)]
    config_dump: bool,

    /// Print the versions of the program, its protocol, its transports and this system, and exit.
    #[arg(short = 'V', long)]
    versions_report: bool,

    /// Print the version and exit.
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// A description of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// The configuration.
    Config,
    /// The versions.
    Versions,
}

impl AboutOptions {
    /// Returns the description that was asked for.
    pub(crate) fn asked(&self) -> Option<About> {
        match (self.versions_report, self.config_dump) {
            (true, _) => Some(About::Versions),
            (_, true) => Some(About::Config),
            _ => None,
        }
    }
}
