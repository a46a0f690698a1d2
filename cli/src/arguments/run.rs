//! The arguments of `saline-run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;

use super::{
    AboutOptions, CommonOptions, HELP, LoginOptions, OutputOptions, Refused, read, time_span,
};

const USAGE: &str = "saline-run [options] <function> [arguments]";

/// The function that returns the documentation of runners.
const DOC: &str = "doc.runner";

/// The function that prints events for as long as it runs, and is no runner: `saline-run` follows the bus itself.
pub(crate) const STATE_EVENT: &str = "state.event";

const ABOUT: &str = "\
Calls a function that runs on the master: audit.*, auth.*, batch.*, cache.*, clock.*, config.get, doc.*, event.*, fileserver.*, jobs.*, \
manage.*, mine.get, nats.permissions, pillar.*, reactor.*, state.*, store.*. -d prints what they do, and -d FUNCTION how one is used:

  saline-run manage.down                      the accepted minions that are not connected
  saline-run jobs.lookup_jid JID              the returns of a job, and who has not returned
  saline-run -d jobs.list_jobs                how a function is used";

/// The command line of `saline-run`.
#[derive(Debug, Parser)]
#[command(
    name = "saline-run",
    version,
    disable_version_flag = true,
    override_usage = USAGE,
    about = ABOUT,
    help_template = HELP,
    args_override_self = true,
    infer_long_args = true
)]
pub(crate) struct RunArguments {
    /// How long the function may take (60, 90s, 15m); the master ends it then. Default: 60 seconds, and a day for
    /// store.*.
    #[arg(short = 't', long, value_name = "TIME", allow_negative_numbers = true,
        value_parser = time_span)]
    pub(crate) timeout: Option<Duration>,

    /// Begin the function, print its jid and do not wait for it: the master stores what it returns.
    #[arg(long = "async")]
    pub(crate) async_: bool,

    /// Print the documentation of the functions that the arguments name, of all without arguments.
    #[arg(short = 'd', long = "doc", alias = "documentation")]
    pub(crate) doc: bool,

    #[command(flatten, next_help_heading = "Output")]
    pub(crate) output: OutputOptions,

    #[command(flatten, next_help_heading = "User")]
    pub(crate) login: LoginOptions,

    #[command(flatten, next_help_heading = "Configuration and log")]
    pub(crate) common: CommonOptions,

    #[command(flatten, next_help_heading = "About the program")]
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
        if read.words.is_empty() && !read.doc && read.about.asked().is_none() {
            return Err(Refused::incomplete::<Self>());
        }
        if read.async_ && read.function() == STATE_EVENT {
            let message =
                "--async cannot be used with state.event, which prints events as they come";
            return Err(Refused::usage(USAGE, message));
        }
        Ok(read)
    }

    /// Returns the name of the function.
    pub(crate) fn function(&self) -> &str {
        match self.doc {
            true => DOC,
            false => self.words.first().map_or("", String::as_str),
        }
    }

    /// Returns the arguments of the function.
    pub(crate) fn arguments(&self) -> &[String] {
        let first = if self.doc { 0 } else { 1 };
        self.words.get(first..).unwrap_or_default()
    }
}
