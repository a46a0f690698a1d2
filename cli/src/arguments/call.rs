//! The arguments of `saline-call`.

use std::ffi::OsString;

use clap::Parser;
use saline_messages::{MinionId, is_compound};
use saline_protocol::transport::HostPort;

use super::{AboutOptions, CommonOptions, HELP, OutputOptions, Refused, read};

const USAGE: &str = "saline-call [options] <function> [arguments]";

const ABOUT: &str = "\
Calls one function on this minion's machine, without publishing a job:

  saline-call test.ping                       the master stores what it returns
  saline-call --local cmd.run 'uptime'        no master takes part
  saline-call -d cmd                          the documentation of these functions";

/// The command line of `saline-call`.
#[derive(Debug, Parser)]
#[command(
    name = "saline-call",
    version,
    disable_version_flag = true,
    override_usage = USAGE,
    about = ABOUT,
    help_template = HELP,
    args_override_self = true,
    infer_long_args = true
)]
pub(crate) struct CallArguments {
    /// Call the function without a master: no session is made, and nothing is returned to one.
    #[arg(long)]
    local: bool,

    /// Return to this master, HOST or HOST:PORT, instead of the one in the minion's configuration.
    #[arg(long, value_name = "MASTER", value_parser = master)]
    pub(crate) master: Option<String>,

    /// Act under this minion id instead of the one in the minion's configuration.
    #[arg(long, value_name = "ID", value_parser = MinionId::parse)]
    pub(crate) id: Option<MinionId>,

    /// Have the master deliver the call and its return to this destination of its configuration (executable, http, local,
    /// postgres, sqlite3) too; several with commas between them.
    #[arg(
        long = "return",
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with = "local"
    )]
    pub(crate) returners: Vec<String>,

    /// Print the grains of this machine.
    #[arg(short = 'g', long)]
    grains: bool,

    /// Print the documentation of the functions or modules that the arguments name, of all without arguments.
    #[arg(short = 'd', long, alias = "documentation")]
    doc: bool,

    /// Exit with the retcode of the function instead of 0 or, when it failed, 1.
    #[arg(long)]
    pub(crate) retcode_passthrough: bool,

    #[command(flatten, next_help_heading = "Output")]
    pub(crate) output: OutputOptions,

    #[command(flatten, next_help_heading = "Configuration and log")]
    pub(crate) common: CommonOptions,

    #[command(flatten, next_help_heading = "About the program")]
    pub(crate) about: AboutOptions,

    #[arg(hide = true, allow_negative_numbers = true)]
    words: Vec<String>,
}

/// The output of `saline-call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutput {
    /// The return of a function.
    Function,
    /// The grains.
    Grains,
    /// The documentation of functions.
    Documentation,
}

impl CallArguments {
    /// Parses the command line.
    ///
    /// # Errors
    /// The text to be printed instead, if there is nothing to carry out.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Refused> {
        let read: Self = read(USAGE, words)?;
        if read.words.is_empty()
            && read.wanted() == CallOutput::Function
            && read.about.asked().is_none()
        {
            return Err(Refused::incomplete::<Self>());
        }
        if read.wanted() == CallOutput::Function && read.words.first().is_some_and(String::is_empty)
        {
            return Err(Refused::usage(USAGE, "the name of the function is empty"));
        }
        if read.wanted() == CallOutput::Function
            && let Some(several) = read.words.first().filter(|word| is_compound(word))
        {
            return Err(Refused::usage(
                USAGE,
                &format!(
                    "'{several}' is several functions: call each by itself; `saline` takes several in one job"
                ),
            ));
        }
        Ok(read)
    }

    /// Returns what is printed.
    pub(crate) fn wanted(&self) -> CallOutput {
        match (self.doc, self.grains) {
            (true, _) => CallOutput::Documentation,
            (false, true) => CallOutput::Grains,
            (false, false) => CallOutput::Function,
        }
    }

    /// Whether a master takes part: grains and documentation are this machine's own.
    pub(crate) fn asks_master(&self) -> bool {
        !self.local && self.wanted() == CallOutput::Function
    }

    /// Returns the function to be called and the words of its arguments.
    pub(crate) fn function(&self) -> (&str, &[String]) {
        match (self.wanted(), self.words.split_first()) {
            (CallOutput::Documentation, _) => ("sys.doc", &self.words),
            (CallOutput::Grains, _) => ("grains.items", &[]),
            (CallOutput::Function, Some((function, arguments))) => (function, arguments),
            // `read` refuses that.
            (CallOutput::Function, None) => ("", &[]),
        }
    }
}

/// Checks an address of a master; the port that it does not name is the configuration's.
fn master(text: &str) -> Result<String, String> {
    match HostPort::parse(text, 0) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!(
            "'{text}' is not a valid master; write HOST, HOST:PORT or [IPv6]:PORT"
        )),
    }
}
