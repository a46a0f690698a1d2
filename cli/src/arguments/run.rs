//! The arguments of `saline-run`.

use std::ffi::OsString;

use clap::Parser;

use super::{AboutOptions, CommonOptions, HELP, OutputOptions, Refused, read};

const USAGE: &str = "saline-run [options] <function> [arguments]";

/// saline-run is the frontend command for functions that run on the master:
/// batch.list_active, batch.status JID, batch.stop JID,
/// jobs.cancel JID, jobs.lookup_jid JID, jobs.list_job JID, jobs.list_jobs, jobs.print_job JID,
/// manage.status, manage.up, manage.down, manage.present, manage.alived, manage.not_alived,
/// manage.transports, manage.versions, store.backup, store.check,
/// state.event TAGMATCH COUNT pretty=True.
/// To manage.*, a minion is up while it has a session that spoke within two heartbeats; nothing
/// is sent to minions.
#[derive(Debug, Parser)]
#[command(
    name = "saline-run",
    version,
    disable_version_flag = true,
    override_usage = USAGE,
    help_template = HELP,
    args_override_self = true,
    infer_long_args = true
)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) common: CommonOptions,

    #[command(flatten)]
    pub(crate) output: OutputOptions,

    #[command(flatten)]
    pub(crate) about: AboutOptions,

    #[arg(hide = true, allow_negative_numbers = true)]
    words: Vec<String>,
}

impl RunArguments {
    /// Parses the command line.
    ///
    /// # Errors
    /// The text to be printed instead, if there is nothing to carry out.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Refused> {
        let read: Self = read(USAGE, words)?;
        if read.words.is_empty() && read.about.asked().is_none() {
            return Err(Refused::incomplete::<Self>());
        }
        Ok(read)
    }

    /// Returns the name of the function.
    pub(crate) fn function(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Returns the arguments of the function.
    pub(crate) fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }
}
