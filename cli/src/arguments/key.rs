//! The arguments of `saline-key`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use saline_channel::PublicIdentity;
use saline_config::LogLevel;
use saline_messages::{
    ApiKeyAction, KeyAction, KeyState, MAX_TOKEN_TIME, MAX_TOKEN_USES, MinionId, TokenName,
};

use super::{
    AboutOptions, CommonOptions, Credentials, HELP, LoginOptions, OutputOptions, ProcessOptions,
    Refused, read,
};

const USAGE: &str = "saline-key [options]";

/// The values of `-l`, and the keys that each lists.
const LISTS: [(&str, &[KeyState]); 10] = [
    ("acc", &[KeyState::Accepted]),
    ("accepted", &[KeyState::Accepted]),
    ("pre", &[KeyState::Pending]),
    ("un", &[KeyState::Pending]),
    ("unaccepted", &[KeyState::Pending]),
    ("den", &[KeyState::Denied]),
    ("denied", &[KeyState::Denied]),
    ("rej", &[KeyState::Rejected]),
    ("rejected", &[KeyState::Rejected]),
    ("all", &KeyState::ALL),
];

/// The action of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyVerb {
    /// Print keys.
    Show(KeyListing, Selection),
    /// Change keys.
    Act(KeyAction, Selection),
    /// Accept the keys on a list.
    AcceptList {
        /// The file with the list; `-` for the standard input.
        path: PathBuf,
        /// The states of the keys that may be accepted.
        states: Vec<KeyState>,
        /// Only show what would be accepted.
        is_dry_run: bool,
    },
    /// Change the key of an API that has this fingerprint, in lower case.
    ActOnApi(ApiKeyAction, String),
    /// Make a new group key.
    RotateGroupKey,
    /// Make the identity that the master's next start takes over.
    RotateIdentity,
    /// Make a token that lets minions in.
    MakeToken(WantedToken),
    /// List tokens.
    ListTokens,
    /// Revoke a token.
    RevokeToken(TokenName),
}

/// The token that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedToken {
    /// A glob over the ids of the minions that it lets in.
    pub(crate) minions: String,
    /// How long it is valid, in milliseconds.
    pub(crate) valid_ms: u64,
    /// The number of minions that it lets in.
    pub(crate) uses: u32,
}

/// The part of a key that is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyListing {
    /// The name.
    Names,
    /// The key itself.
    Keys,
    /// The fingerprint.
    Fingerprints,
}

/// A choice of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    /// A glob over their names.
    pub(crate) glob: String,
    /// The states of the keys, in the order in which they are printed.
    pub(crate) states: Vec<KeyState>,
    /// The fingerprint of the only key that is meant, in lower case.
    pub(crate) fingerprint: Option<String>,
}

const ABOUT: &str = "\
Lists, accepts, rejects and deletes the keys of minions:

  saline-key -L                               all keys, by state
  saline-key -f web1                          the fingerprint of a key, to be compared with the minion's log
  saline-key -a 'web*'                        accepts the pending keys of these minions, after a question";

/// Reads a number of hours, and returns it in milliseconds.
fn hours(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is not a number of hours above 0 and up to 2160, such as 2 or 0.5");
    let hours: f64 = text.parse().map_err(|_| wrong())?;
    let span = Duration::try_from_secs_f64(hours * 3_600.0).map_err(|_| wrong())?;
    u64::try_from(span.as_millis())
        .ok()
        .filter(|milliseconds| (1..=MAX_TOKEN_TIME).contains(milliseconds))
        .ok_or_else(wrong)
}

/// Reads a whole fingerprint, and returns it in lower case.
fn fingerprint(text: &str) -> Result<String, String> {
    let fingerprint = text.to_ascii_lowercase();
    match PublicIdentity::is_fingerprint(&fingerprint) {
        true => Ok(fingerprint),
        false => Err(format!(
            "'{text}' is not a whole fingerprint, as saline-key -L prints it"
        )),
    }
}

/// The command line of `saline-key`.
#[derive(Debug, Parser)]
#[command(
    name = "saline-key",
    version,
    disable_version_flag = true,
    override_usage = USAGE,
    about = ABOUT,
    help_template = HELP,
    args_override_self = true,
    infer_long_args = true,
    // Salt's -a accepts keys here.
    mut_arg("eauth", |eauth| eauth.short(None))
)]
pub(crate) struct KeyArguments {
    /// The folder of the configuration.
    #[arg(
        short = 'c',
        long = "config-dir",
        value_name = "CONFIG_DIR",
        default_value = "/etc/saline"
    )]
    config_dir: PathBuf,

    /// Log level for the standard error output: quiet, critical, error, warning,
    /// info, profile, debug, trace, garbage, all.
    #[arg(long = "log-level", value_name = "LOG_LEVEL")]
    log_level: Option<LogLevel>,

    /// List the public keys: "pre", "un" and "unaccepted" list unaccepted keys, "acc" and
    /// "accepted" accepted ones, "rej" and "rejected" rejected ones, "den" and "denied" denied
    /// ones, "all" all of them.
    #[arg(short = 'l', long = "list", value_name = "ARG", value_parser = PossibleValuesParser::new(LISTS.map(|(name, _)| name)))]
    list: Option<String>,

    /// List all public keys.
    #[arg(short = 'L', long = "list-all")]
    list_all: bool,

    /// Accept the pending keys with this id, or whose ids match this glob.
    #[arg(short = 'a', long, value_name = "ACCEPT")]
    accept: Option<String>,

    /// Accept all pending keys.
    #[arg(short = 'A', long)]
    accept_all: bool,

    /// Accept the pending keys that this file names with an id and a fingerprint in each line, also as -F prints them; - reads
    /// the standard input, and needs -y. Keys that are missing or differ are told, with exit code 1.
    #[arg(long, value_name = "FILE")]
    accept_list: Option<PathBuf>,

    /// Show what --accept-list would accept, and change nothing.
    #[arg(long, requires = "accept_list")]
    dry_run: bool,

    /// Reject the pending keys with this id, or whose ids match this glob.
    #[arg(short = 'r', long, value_name = "REJECT")]
    reject: Option<String>,

    /// Reject all pending keys.
    #[arg(short = 'R', long)]
    reject_all: bool,

    /// Delete the keys with this id, or whose ids match this glob, whatever their state.
    #[arg(short = 'd', long, value_name = "DELETE")]
    delete: Option<String>,

    /// Delete all keys.
    #[arg(short = 'D', long)]
    delete_all: bool,

    /// Print the key with this id, or the keys whose ids match this glob.
    #[arg(short = 'p', long = "print", value_name = "PRINT")]
    print: Option<String>,

    /// Print all public keys.
    #[arg(short = 'P', long)]
    print_all: bool,

    /// Print the fingerprint of the key with this id, or of those whose ids match this glob. Beside -a, -r or -d: the
    /// fingerprint of the key that is meant, and every other key is left alone.
    #[arg(short = 'f', long, value_name = "FINGER")]
    finger: Option<String>,

    /// Print all keys' fingerprints, the master's too.
    #[arg(short = 'F', long)]
    finger_all: bool,

    /// Make a new key for what the master publishes to all minions, and send it to those that are present. Deleting or
    /// rejecting a key does so too.
    #[arg(long)]
    rotate_aes_key: bool,

    /// Make the key that identifies the master from its next start on. The present one signs it, and minions take it over
    /// when they connect.
    #[arg(long)]
    rotate_identity: bool,

    /// Make a token by which the master accepts the key of a minion at once, and print it: docs/enrolment.md says how a minion
    /// gets it. With --for; --hours and --uses bound it.
    #[arg(long, requires = "token_for")]
    make_token: bool,

    /// The minions that --make-token is for: an id or a glob over ids.
    #[arg(
        id = "token_for",
        long = "for",
        value_name = "GLOB",
        requires = "make_token"
    )]
    token_for: Option<String>,

    /// How long the token of --make-token is valid, at most 2160 hours (90 days).
    #[arg(long, value_name = "HOURS", default_value = "1", value_parser = hours)]
    hours: u64,

    /// How many minions the token of --make-token lets in, each once.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TOKEN_USES)))]
    uses: u32,

    /// List the tokens that are valid, without their values.
    #[arg(long)]
    list_tokens: bool,

    /// Revoke the token with this name, which --list-tokens shows.
    #[arg(long, value_name = "NAME")]
    revoke_token: Option<TokenName>,

    /// Print the hash of a password for the file of users of the master's external_auth. The password is asked for, or is a line of
    /// the standard input where that is no terminal.
    #[arg(long)]
    pub(crate) hash_password: bool,

    /// Accept the key with this fingerprint, with --api that of a host of the HTTP API: -L shows those that wait. The keys of other
    /// operators are put into pki_dir/operators by hand.
    #[arg(long, value_name = "FINGERPRINT", requires = "api", value_parser = fingerprint)]
    accept_operator: Option<String>,

    /// Accept the key of --accept-operator as that of a host of the HTTP API, which may act for users who log in and do next to
    /// nothing in its own name.
    #[arg(long, requires = "accept_operator")]
    api: bool,

    /// Delete the key with this fingerprint of a host of the HTTP API, accepted or waiting. What the host asks for next is refused.
    #[arg(long, value_name = "FINGERPRINT", value_parser = fingerprint)]
    delete_operator: Option<String>,

    /// Generate the key pair of a minion with this id, for a minion that is set up before it runs.
    #[arg(long, value_name = "ID", value_parser = MinionId::parse)]
    gen_keys: Option<MinionId>,

    /// The directory that --gen-keys writes to.
    #[arg(long, value_name = "DIR", default_value = ".")]
    gen_keys_dir: PathBuf,

    /// Accepted for compatibility; does nothing: the keys are Ed25519, which has one size.
    #[arg(long, value_name = "SIZE", requires = "gen_keys")]
    keysize: Option<u32>,

    /// Include rejected keys when accepting, accepted keys when rejecting.
    #[arg(long)]
    include_all: bool,

    /// Include accepted keys when rejecting.
    #[arg(long)]
    include_accepted: bool,

    /// Include rejected keys when accepting.
    #[arg(long)]
    include_rejected: bool,

    /// Include denied keys when accepting or rejecting.
    #[arg(long)]
    include_denied: bool,

    /// Delete denied keys alone.
    #[arg(long)]
    only_denied: bool,

    /// Show beside each key where its minion is and when it was heard last, also where the output is no terminal.
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,

    /// Answer yes to all questions presented.
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,

    /// Suppress output.
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,

    #[command(flatten, next_help_heading = "Output")]
    pub(crate) output: OutputOptions,

    #[command(flatten, next_help_heading = "User")]
    credentials: Credentials,

    #[command(flatten, next_help_heading = "Configuration and log")]
    process: ProcessOptions,

    #[command(flatten, next_help_heading = "About the program")]
    pub(crate) about: AboutOptions,

    #[arg(hide = true)]
    words: Vec<String>,
}

impl KeyArguments {
    /// Parses the command line.
    ///
    /// # Errors
    /// The text to be printed instead, if there is nothing to carry out.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Refused> {
        let read: Self = read(USAGE, words)?;
        // Salt users often type `salt-key -F master`, where the word has no effect. With another
        // option the word would be a name that the operator expects to be acted on.
        if let Some(word) = read.words.first()
            && !read.finger_all
        {
            return Err(Refused::usage(
                USAGE,
                &format!(
                    "unexpected argument {word:?}: give one key or glob for each option, in quotes"
                ),
            ));
        }
        let changes_one = [&read.accept, &read.reject, &read.delete].map(Option::is_some);
        let names_key = changes_one.contains(&true) && read.finger.is_some();
        if names_key && read.fingerprint().is_none() {
            return Err(Refused::usage(
                USAGE,
                "--finger beside -a, -r or -d takes a whole fingerprint, as saline-key -f prints it",
            ));
        }
        let deletes = read.delete.is_some() || read.delete_all;
        let includes = read.include_all
            || read.include_accepted
            || read.include_rejected
            || read.include_denied;
        if deletes && includes {
            return Err(Refused::usage(
                USAGE,
                "-d deletes keys in every state: --only-denied deletes denied ones alone, and --finger the key with \
                 one fingerprint",
            ));
        }
        if read.only_denied && !deletes {
            return Err(Refused::usage(USAGE, "--only-denied goes with -d or -D"));
        }
        let verbs = [
            read.list.is_some(),
            read.list_all,
            read.accept.is_some(),
            read.accept_all,
            read.accept_list.is_some(),
            read.reject.is_some(),
            read.reject_all,
            read.delete.is_some(),
            read.delete_all,
            read.print.is_some(),
            read.print_all,
            read.finger.is_some() && !names_key,
            read.finger_all,
            read.gen_keys.is_some(),
            read.hash_password,
            read.rotate_aes_key,
            read.rotate_identity,
            read.make_token,
            read.list_tokens,
            read.revoke_token.is_some(),
            read.accept_operator.is_some(),
            read.delete_operator.is_some(),
        ];
        if verbs.into_iter().filter(|asked| *asked).count() > 1 {
            return Err(Refused::usage(
                USAGE,
                "one thing at a time: list, accept, accept-list, reject, delete, print, finger, gen-keys, hash-password, rotate-aes-key, \
                 rotate-identity, make-token, list-tokens, revoke-token, accept-operator or delete-operator",
            ));
        }
        Ok(read)
    }

    /// Returns the options that every command takes.
    pub(crate) fn common(&self) -> CommonOptions {
        CommonOptions {
            config_dir: self.config_dir.clone(),
            log_level: self.log_level,
            process: self.process.clone(),
        }
    }

    /// Returns the login, which ends with the command.
    pub(crate) fn login(&self) -> LoginOptions {
        LoginOptions {
            credentials: self.credentials.clone(),
            make_token: false,
        }
    }

    /// Returns the id of the minion whose keys are to be generated, the folder for them, and the user who is to have
    /// them.
    pub(crate) fn generated(&self) -> Option<(&MinionId, &Path, Option<&str>)> {
        let id = self.gen_keys.as_ref()?;
        Some((id, &self.gen_keys_dir, self.process.user.as_deref()))
    }

    /// Returns the action; without an option, all keys are listed.
    pub(crate) fn verb(&self) -> KeyVerb {
        if let Some(fingerprint) = &self.accept_operator {
            return KeyVerb::ActOnApi(ApiKeyAction::Accept, fingerprint.clone());
        }
        if let Some(fingerprint) = &self.delete_operator {
            return KeyVerb::ActOnApi(ApiKeyAction::Delete, fingerprint.clone());
        }
        if self.rotate_aes_key {
            return KeyVerb::RotateGroupKey;
        }
        if self.rotate_identity {
            return KeyVerb::RotateIdentity;
        }
        if self.make_token {
            return KeyVerb::MakeToken(WantedToken {
                minions: self.token_for.clone().unwrap_or_default(),
                valid_ms: self.hours,
                uses: self.uses,
            });
        }
        if let Some(path) = &self.accept_list {
            return KeyVerb::AcceptList {
                path: path.clone(),
                states: self.states(KeyState::Rejected, self.include_rejected),
                is_dry_run: self.dry_run,
            };
        }
        if self.list_tokens {
            return KeyVerb::ListTokens;
        }
        if let Some(name) = self.revoke_token {
            return KeyVerb::RevokeToken(name);
        }
        let all = || "*".to_owned();
        let one_or_all = |one: &Option<String>, every: bool| one.clone().or(every.then(all));
        let everywhere = |glob| Selection {
            glob,
            states: KeyState::ALL.to_vec(),
            fingerprint: None,
        };
        if let Some(glob) = one_or_all(&self.accept, self.accept_all) {
            let states = self.states(KeyState::Rejected, self.include_rejected);
            return self.act(KeyAction::Accept, glob, states);
        }
        if let Some(glob) = one_or_all(&self.reject, self.reject_all) {
            let states = self.states(KeyState::Accepted, self.include_accepted);
            return self.act(KeyAction::Reject, glob, states);
        }
        if let Some(glob) = one_or_all(&self.delete, self.delete_all) {
            let states = match self.only_denied {
                true => vec![KeyState::Denied],
                false => KeyState::ALL.to_vec(),
            };
            return self.act(KeyAction::Delete, glob, states);
        }
        if let Some(glob) = one_or_all(&self.print, self.print_all) {
            return KeyVerb::Show(KeyListing::Keys, everywhere(glob));
        }
        if let Some(glob) = one_or_all(&self.finger, self.finger_all) {
            return KeyVerb::Show(KeyListing::Fingerprints, everywhere(glob));
        }
        let list = self.list.as_deref().unwrap_or("all");
        let listed = LISTS.iter().find(|(name, _)| *name == list);
        let states = listed.map_or_else(Vec::new, |(_, states)| states.to_vec());
        KeyVerb::Show(
            KeyListing::Names,
            Selection {
                glob: all(),
                states,
                fingerprint: None,
            },
        )
    }

    fn act(&self, action: KeyAction, glob: String, states: Vec<KeyState>) -> KeyVerb {
        let fingerprint = self.fingerprint();
        KeyVerb::Act(
            action,
            Selection {
                glob,
                states,
                fingerprint,
            },
        )
    }

    /// Returns the value of `--finger`, if it is a whole fingerprint.
    fn fingerprint(&self) -> Option<String> {
        let fingerprint = self.finger.as_ref()?.to_ascii_lowercase();
        PublicIdentity::is_fingerprint(&fingerprint).then_some(fingerprint)
    }

    /// Returns the states to act on: pending, `other` and denied keys as they are included.
    fn states(&self, other: KeyState, included: bool) -> Vec<KeyState> {
        KeyState::ALL
            .into_iter()
            .filter(|state| {
                *state == KeyState::Pending
                    || (*state == other && (included || self.include_all))
                    || (*state == KeyState::Denied && self.include_denied)
            })
            .collect()
    }
}
