//! The arguments of `saline-cp`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;
use saline_targeting::Target;

use super::{
    AboutOptions, CommonOptions, HELP, OutputOptions, Refused, TargetOptions, read as read_words,
    time_span,
};

const USAGE: &str = "saline-cp [options] '<target>' <file>... <destination>";

const ABOUT: &str = "\
Copies files and folders of this machine to the minions that the target matches:

  saline-cp '*' app.conf /etc/app.conf                      one file
  saline-cp -L web1,web2 app.conf sites/ /etc/nginx/        into a folder, where each keeps its name
  saline-cp --compound 'web* and not web9' site /srv        a folder, as /srv/site";

/// The command line of `saline-cp`. As with Salt's, `-C` is no kind of target.
#[derive(Debug, Parser)]
#[command(
    name = "saline-cp",
    version,
    disable_version_flag = true,
    override_usage = USAGE,
    about = ABOUT,
    help_template = HELP,
    args_override_self = true,
    infer_long_args = true,
    mut_arg("compound", |compound| compound.short(None))
)]
pub(crate) struct CpArguments {
    #[command(flatten, next_help_heading = "Target")]
    pub(crate) targeting: TargetOptions,

    /// Wait TIME for a minion that gives no sign of life, or that went away while it fetched the files (5, 0.5, 90s,
    /// 15m). One that fetches them and is present is waited for without limit. Default: the configuration's timeout, 5.
    #[arg(help_heading = "Copy", short = 't', long, value_name = "TIME", allow_negative_numbers = true,
        value_parser = time_span)]
    pub(crate) timeout: Option<Duration>,

    /// Accepted for compatibility; does nothing: files of every size and folders are copied.
    #[arg(help_heading = "Copy", short = 'C', long)]
    chunked: bool,

    /// Accepted for compatibility; does nothing: nothing is compressed.
    #[arg(help_heading = "Copy", short = 'n', long)]
    no_compression: bool,

    /// Show on the terminal how many minions have returned, and which one is waited for and when it was heard last.
    #[arg(help_heading = "Output", short = 'p', long)]
    pub(crate) progress: bool,

    #[command(flatten, next_help_heading = "Output")]
    pub(crate) output: OutputOptions,

    #[command(flatten, next_help_heading = "Configuration and log")]
    pub(crate) common: CommonOptions,

    #[command(flatten, next_help_heading = "About the program")]
    pub(crate) about: AboutOptions,

    #[arg(hide = true, allow_negative_numbers = true)]
    words: Vec<String>,
}

impl CpArguments {
    /// Parses the command line.
    ///
    /// # Errors
    /// The text to be printed instead, if there is nothing to carry out.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Refused> {
        let read: Self = read_words(USAGE, words)?;
        if let Err(message) = read.targeting.check() {
            return Err(Refused::usage(USAGE, &message));
        }
        if read.about.asked().is_some() {
            return Ok(read);
        }
        let least = if read.targeting.preview_target { 1 } else { 3 };
        if read.words.len() < least {
            return Err(Refused::incomplete::<Self>());
        }
        let destination = read.destination();
        if least > 1 && !destination.starts_with('/') {
            let message = format!(
                "the destination '{destination}' is not an absolute path: the last argument is the path on the minions"
            );
            return Err(Refused::usage(USAGE, &message));
        }
        Ok(read)
    }

    /// Returns the target expression.
    pub(crate) fn target(&self) -> Target {
        self.targeting
            .target(self.words.first().map_or("", String::as_str))
    }

    /// Returns the paths of the files and folders on this machine.
    pub(crate) fn sources(&self) -> &[String] {
        let sources = self.words.get(1..self.words.len().saturating_sub(1));
        sources.unwrap_or_default()
    }

    /// Returns the path on the minions.
    pub(crate) fn destination(&self) -> &str {
        self.words.last().map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use saline_targeting::TargetKind;

    use super::*;

    fn read(line: &str) -> Result<CpArguments, Refused> {
        CpArguments::read(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_first_word_is_the_target_and_the_last_the_destination() {
        let read = |line: &str| read(line).unwrap();
        let several = read("saline-cp -C -n -L web1,web2 a b/ -t 5 /etc/");
        assert_eq!(several.target().kind, TargetKind::List);
        assert_eq!(several.target().expression, "web1,web2");
        assert_eq!(several.sources(), ["a", "b/"]);
        assert_eq!(several.destination(), "/etc/");
        let compound = read("saline-cp --compound web* -- -a /etc/a");
        assert_eq!(compound.target().kind, TargetKind::Compound);
        assert_eq!(compound.sources(), ["-a"]);
        assert_eq!(
            read("saline-cp -C web1 a /b").target().kind,
            TargetKind::Glob
        );
        assert!(read("saline-cp --preview-target web*").sources().is_empty());
    }

    #[test]
    fn too_few_words_and_a_relative_destination_are_refused() {
        let refused = |line: &str| {
            let refused = read(line).unwrap_err();
            assert_eq!(refused.code, crate::exit::USAGE, "{line}");
            refused.err
        };
        for incomplete in ["saline-cp web1", "saline-cp web1 /etc/app.conf"] {
            let refused = read(incomplete).unwrap_err();
            assert_eq!(refused.code, crate::exit::INCOMPLETE, "{incomplete}");
        }
        assert!(refused("saline-cp web1 app.conf app.conf").contains("is not an absolute path"));
        refused("saline-cp -G -E web1 a /b");
    }
}
