//! The arguments of `saline`.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use clap::Parser;
use saline_config::{parse_argument, parse_calls};
use saline_data::printable::escape_line;
use saline_data::{Packed, Value};
use saline_messages::{Arguments, Jid, MAX_METADATA};
use saline_targeting::{Target, TargetKind};

use super::batch::BatchOptions;
use super::secret::SecretOptions;
use super::{
    AboutOptions, CommonOptions, HELP, LoginOptions, OutputOptions, Refused, TargetOptions,
    read as read_words, time_span,
};
use crate::exit;
use crate::output::Format;

/// The function that returns documentation.
const DOC: &str = "sys.doc";

const USAGE: &str = "saline [options] '<target>' <function> [arguments]";

const ABOUT: &str = "\
Runs a function on the minions that the target matches, and prints what each returns:

  saline '*' test.ping                        every accepted minion
  saline -G 'os:Debian' cmd.run 'uptime'      those with this grain
  saline -C 'web* and not web9' -b 10% cmd.run 'systemctl restart nginx'   in batches";

/// The command line of `saline`.
#[derive(Debug, Parser)]
#[command(
    name = "saline",
    version,
    disable_version_flag = true,
    override_usage = USAGE,
    about = ABOUT,
    help_template = HELP,
    args_override_self = true,
    infer_long_args = true
)]
pub(crate) struct SalineArguments {
    #[command(flatten, next_help_heading = "Target")]
    pub(crate) targeting: TargetOptions,

    /// Wait TIME for a minion that gives no sign of life, or that went away while it ran the job (5, 0.5, 90s,
    /// 15m). One that runs the job and is present is waited for without limit. Default: the configuration's timeout, 5.
    #[arg(help_heading = "Job", short = 't', long, value_name = "TIME", allow_negative_numbers = true,
        value_parser = time_span)]
    pub(crate) timeout: Option<Duration>,

    /// Offer the job for TIME (90, 90s, 15m, 1h, 2d; not longer than the master's keep_jobs_seconds), also to minions that are
    /// offline now. Without it: to connected minions, for the configuration's job_ttl.
    #[arg(help_heading = "Job", long, value_name = "TIME", value_parser = time_span)]
    pub(crate) ttl: Option<Duration>,

    /// Publish the job, print its jid and exit.
    #[arg(help_heading = "Job", long = "async")]
    pub(crate) async_: bool,

    /// Use this jid for the job: the present time in UTC as YYYYMMDDhhmmssffffff, above that of every other
    /// job and at most a minute before the master's time. Default: the master makes one.
    #[arg(help_heading = "Job", long, value_name = "JID", value_parser = jid)]
    pub(crate) jid: Option<Jid>,

    /// Note this with the job: a mapping in YAML or JSON, such as '{ticket: 4711}'. Minions do not get it;
    /// saline-run jobs.list_jobs search_metadata='{ticket: 4711}' finds the job by it.
    #[arg(help_heading = "Job", long, value_name = "METADATA", value_parser = metadata)]
    metadata: Option<Metadata>,

    /// Have the master deliver the job and its returns to this destination of its configuration (executable, http, local,
    /// postgres, sqlite3) too; several with commas between them.
    #[arg(
        help_heading = "Job",
        long = "return",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub(crate) returners: Vec<String>,

    /// Send the job to each of its minions sealed for it alone. Without this, every accepted minion can read the arguments of a job for more than 64 minions.
    #[arg(help_heading = "Job", long)]
    pub(crate) private: bool,

    #[command(flatten, next_help_heading = "Job")]
    pub(crate) secrets: SecretOptions,

    /// Print the documentation of the functions that the arguments name, all without arguments: once
    /// for all minions that have the same.
    #[arg(
        help_heading = "Job",
        short = 'd',
        long = "doc",
        alias = "documentation"
    )]
    doc: bool,

    /// With several functions (test.ping,cmd.run), use this between the arguments of one and of the next.
    #[arg(help_heading = "Job", long, value_name = "TEXT", default_value = ",")]
    args_separator: String,

    /// Read further options and arguments from the standard input, one on each line.
    #[arg(help_heading = "Job", long)]
    args_stdin: bool,

    /// Accepted for compatibility; does nothing: the event of a minion that has begun is always fired, unless the
    /// minion returns within half a second.
    #[arg(help_heading = "Job", long)]
    start_event: bool,

    /// Accepted for compatibility; does nothing: no job is needed to find out which minions run one.
    #[arg(help_heading = "Job", long, value_name = "TIME", value_parser = time_span)]
    gather_job_timeout: Option<Duration>,

    #[command(flatten, next_help_heading = "Batch")]
    pub(crate) batch: BatchOptions,

    /// Print nothing until every minion has returned, and then all returns together.
    #[arg(help_heading = "Output", short = 's', long = "static")]
    pub(crate) static_: bool,

    /// Print the jid, and what is waited for.
    #[arg(help_heading = "Output", short = 'v', long)]
    pub(crate) verbose: bool,

    /// Print the jid, and nothing else that --verbose adds.
    #[arg(help_heading = "Output", long)]
    pub(crate) show_jid: bool,

    /// Print the numbers of minions that returned, did not return and failed.
    #[arg(help_heading = "Output", long)]
    pub(crate) summary: bool,

    /// Do not print the minions that did not return. The last line still counts them.
    #[arg(help_heading = "Output", long)]
    pub(crate) hide_timeout: bool,

    /// Accepted for compatibility; does nothing: minions that did not return are always printed.
    #[arg(help_heading = "Output", long)]
    show_timeout: bool,

    /// Show on the terminal how many minions have returned, and which one is waited for and when it was heard last.
    #[arg(help_heading = "Output", short = 'p', long)]
    pub(crate) progress: bool,

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

impl SalineArguments {
    /// Parses the command line, with the lines of `input` after it if it asks for them.
    ///
    /// # Errors
    /// The text to be printed instead, if there is nothing to carry out.
    pub(crate) fn read(
        words: impl IntoIterator<Item = OsString>,
        input: impl FnOnce() -> io::Result<String>,
    ) -> Result<Self, Refused> {
        let mut words: Vec<OsString> = words.into_iter().collect();
        let unquoted = unquoted_option(&words);
        let mut read: Self =
            read_words(USAGE, words.iter().cloned()).map_err(|refused| match &unquoted {
                Some(option) if refused.code == exit::USAGE => {
                    refused.with_hint(&in_quotes(option))
                }
                _ => refused,
            })?;
        if let Some(option) = unquoted.filter(|_| read.doc) {
            return Err(Refused::usage(USAGE, &in_quotes(&option)));
        }
        if read.args_stdin {
            let lines = input().map_err(|error| {
                Refused::usage(USAGE, &format!("cannot read the standard input: {error}"))
            })?;
            words.extend(lines.lines().map(OsString::from));
            read = read_words(USAGE, words)?;
        }
        if let Err(message) = read.targeting.check() {
            return Err(Refused::usage(USAGE, &message));
        }
        // As in Salt: the documentation of all minions' functions.
        if read.doc && read.words.is_empty() && read.targeting.kind() == TargetKind::Glob {
            read.words.push("*".to_owned());
        }
        let needs_function = !read.doc && !read.targeting.preview_target;
        let least = if needs_function { 2 } else { 1 };
        if read.words.len() < least && read.about.asked().is_none() {
            return Err(Refused::incomplete::<Self>());
        }
        if needs_function && read.words.get(1).is_some_and(String::is_empty) {
            return Err(Refused::usage(USAGE, "the name of the function is empty"));
        }
        let checked = read.calls().and_then(|calls| {
            let named = calls.iter().flat_map(|(_, arguments)| &arguments.named);
            let names = named.map(|(name, _)| name.as_str());
            match calls.len() > 1 {
                // Two functions may have arguments of one name.
                true => read.secrets.refuse_any(),
                false => read.secrets.check(names, read.args_stdin),
            }
        });
        if let Err(message) = checked {
            return Err(Refused::usage(USAGE, &message));
        }
        Ok(read)
    }

    /// Checks the options about batches, for a master whose configuration has this `batch_safe_limit`.
    ///
    /// # Errors
    /// The text to be printed instead.
    pub(crate) fn check_batch(&self, safe_limit: u32) -> Result<(), Refused> {
        let checked = self.batch.check(safe_limit);
        checked.map_err(|message| Refused::usage(USAGE, &message))
    }

    /// Returns the target expression.
    pub(crate) fn target(&self) -> Target {
        self.targeting
            .target(self.words.first().map_or("", String::as_str))
    }

    /// Returns how a target that matches nobody may have been meant; none where nothing suggests itself.
    pub(crate) fn target_hint(&self) -> Option<String> {
        let Target {
            kind, expression, ..
        } = self.target();
        if kind != TargetKind::Glob {
            return None;
        }
        if expression.contains(',') && !expression.contains(['{', '[']) {
            return Some("A list of minions needs -L: saline -L 'web1,web2' ...".to_owned());
        }
        let is_function = self.doc && self.words.len() == 1 && expression.contains('.');
        is_function.then(|| {
            let function = escape_line(&expression);
            format!("-d takes a target too: saline '*' -d {function}")
        })
    }

    /// Returns the name of the function.
    pub(crate) fn function(&self) -> &str {
        match self.doc {
            true => DOC,
            false => self.words.get(1).map_or("", String::as_str),
        }
    }

    /// Returns the arguments of the function.
    pub(crate) fn arguments(&self) -> &[String] {
        let first = if self.doc { 1 } else { 2 };
        self.words.get(first..).unwrap_or_default()
    }

    /// Returns the functions with their arguments: one, unless several are named with commas between them.
    ///
    /// # Errors
    /// When the arguments are not divided among all functions.
    pub(crate) fn calls(&self) -> Result<Vec<(String, Arguments)>, String> {
        parse_calls(self.function(), self.arguments(), &self.args_separator)
    }

    /// Returns what is noted with the job.
    pub(crate) fn metadata(&self) -> Option<Vec<(String, Value)>> {
        self.metadata.as_ref().map(|metadata| metadata.0.clone())
    }

    /// Whether the documentation of functions is printed once for all minions. To programs, what `sys.doc` returns
    /// is data as any other, but for `-d`.
    pub(crate) fn wants_documentation(&self, format: Format) -> bool {
        self.doc || (self.function() == DOC && !format.is_for_programs())
    }
}

/// Returns the hint about an option that was probably meant as a part of a command.
fn in_quotes(option: &str) -> String {
    format!(
        "{option} after a command is an option of saline: put the whole command in quotes, as in cmd.run 'ls -la /'"
    )
}

/// Returns the first option after a command of `cmd.*`, which may be a part of that command without quotation marks.
fn unquoted_option(words: &[OsString]) -> Option<String> {
    let mut words = words.iter().filter_map(|word| word.to_str());
    words.find(|word| word.starts_with("cmd."))?;
    words.next().filter(|command| !command.starts_with('-'))?;
    let ends = words.clone().position(|word| word == "--");
    let mut options = words.take(ends.unwrap_or(usize::MAX));
    options
        .find(|word| word.len() > 1 && word.starts_with('-'))
        .map(str::to_owned)
}

/// The metadata of a job.
#[derive(Debug, Clone)]
struct Metadata(Vec<(String, Value)>);

fn metadata(text: &str) -> Result<Metadata, String> {
    let value = parse_argument(text);
    let bytes = Packed::pack(&value).as_bytes().len();
    match value {
        Value::Map(_) if bytes > MAX_METADATA => Err(format!(
            "the metadata take {bytes} bytes, and at most {MAX_METADATA} are stored with a job"
        )),
        Value::Map(entries) => Ok(Metadata(entries)),
        _ => Err(format!(
            "'{text}' is not a mapping; write '{{ticket: 4711}}'"
        )),
    }
}

fn jid(text: &str) -> Result<Jid, String> {
    Jid::parse(text).map_err(|_| {
        format!(
            "'{text}' is not a valid jid; write the present time in UTC as YYYYMMDDhhmmssffffff, 20 digits"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_a_mapping_that_fits() {
        let read = |text: &str| metadata(text).map(|metadata| metadata.0);
        let expected = vec![
            ("ticket".to_owned(), Value::Int(4711)),
            ("team".to_owned(), "ops".into()),
        ];
        assert_eq!(read("{ticket: 4711, team: ops}"), Ok(expected.clone()));
        assert_eq!(read(r#"{"ticket": 4711, "team": "ops"}"#), Ok(expected));
        for none in ["", "ticket", "ticket: 4711", "[1]", "{"] {
            assert!(read(none).is_err(), "{none:?}");
        }
        let long = format!("{{x: {}}}", "y".repeat(MAX_METADATA));
        assert!(read(&long).unwrap_err().starts_with("the metadata take "));
    }
}
