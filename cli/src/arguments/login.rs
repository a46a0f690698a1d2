//! The options of users who log in with a name and a password.

use clap::Args;

/// The options of users who log in, and who may stay so.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LoginOptions {
    #[command(flatten)]
    pub(crate) credentials: Credentials,

    /// With -a: stay logged in, until the master's token_expire, and keep the token in ~/.saline/token. Without -a: give the order
    /// by the token that is kept there.
    #[arg(short = 'T', long)]
    pub(crate) make_token: bool,
}

/// What a user logs in with.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Credentials {
    /// Log in by this way of the master's external_auth (file, sharedsecret), and give the order in the name of that user. The
    /// password is asked for, or is a line of the standard input where that is no terminal.
    #[arg(short = 'a', long = "auth", alias = "eauth", value_name = "EAUTH")]
    pub(crate) eauth: Option<String>,

    /// The name of the user who logs in. Default: it is asked for.
    #[arg(long, value_name = "USERNAME", requires = "eauth")]
    pub(crate) username: Option<String>,

    /// The password of that user. Every user of this machine can read it on the command line: leave it out to be asked.
    #[arg(long, value_name = "PASSWORD", requires = "eauth")]
    pub(crate) password: Option<String>,
}
