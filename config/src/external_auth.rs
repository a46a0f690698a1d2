//! Who may log in from outside, by which way, and what they may do then, as the master's configuration has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use saline_messages::NetapiClient;

use crate::{AccessRules, Secret};

/// `external_auth` and the options beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalAuth {
    /// `external_auth`: the rules of the users of each way to log in.
    pub ways: BTreeMap<LoginWay, AccessRules>,
    /// `^filename` below `file` of `external_auth`: the file with the users and the hashes of their passwords.
    pub user_file: Option<PathBuf>,
    /// `sharedsecret`: the password of everybody who logs in with it.
    pub shared_secret: Option<Secret>,
    /// `token_expire`: how long a login is valid. 43,200 s
    pub token_expire: Duration,
    /// `netapi_enable_clients`: the clients of an API by which users may ask for something.
    pub enabled_clients: BTreeSet<NetapiClient>,
}

/// A way to log in: Salt's `eauth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LoginWay {
    /// The name and the password are those of a user of the master's machine.
    Pam,
    /// The name and the password stand in a file, the password as a hash of Argon2.
    File,
    /// Everybody has the password `sharedsecret`.
    SharedSecret,
    /// Any password will do. For tests.
    Auto,
}

impl LoginWay {
    /// Lists the ways in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Pam, Self::File, Self::SharedSecret, Self::Auto];

    /// Returns Salt's name of the way.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pam => "pam",
            Self::File => "file",
            Self::SharedSecret => "sharedsecret",
            Self::Auto => "auto",
        }
    }

    /// Returns the way with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }
}

impl fmt::Display for LoginWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExternalAuth {
    /// Whether anybody may log in.
    pub fn names_anybody(&self) -> bool {
        self.ways.values().any(|rules| !rules.is_empty())
    }
}

impl Default for ExternalAuth {
    fn default() -> Self {
        Self {
            ways: BTreeMap::new(),
            user_file: None,
            shared_secret: None,
            token_expire: Duration::from_secs(43_200),
            enabled_clients: BTreeSet::new(),
        }
    }
}
