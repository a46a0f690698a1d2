//! The verbs by which somebody without a key of its own gives orders: it logs in with a user's name and password, and acts with
//! the token of that login. Salt's external authentication, `eauth`.

use std::fmt;
use std::time::Duration;

use saline_data::Packed;
use serde::{Deserialize, Serialize};

use super::MasterTime;
use super::envelope::after_ms;

/// The longest name of a user, name of a way to log in (`eauth`) or password, in bytes.
pub const MAX_LOGIN_TEXT: usize = 1_024;

/// A password on its way to the master. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Password(String);

impl Password {
    /// Takes a password as it was typed.
    pub fn new(password: String) -> Self {
        Self(password)
    }

    /// Returns the password as it was typed.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// The token of a login: 32 random bytes, written as 64 hexadecimal digits. The program that logs in makes it, and whoever has
/// it acts as the user. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginToken(pub [u8; 32]);

impl fmt::Debug for LoginToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginToken(…)")
    }
}

/// A login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginRequest {
    /// The name of the user.
    pub user: String,
    /// What the user proves the name with.
    pub password: Password,
    /// The way to log in, which is a name below `external_auth`: `pam`, `file`, `sharedsecret`, `auto`.
    pub eauth: String,
    /// The token that is to be valid from now on. The master keeps its digest alone. Repeated, the same login makes one token.
    pub token: LoginToken,
}

/// The reply to a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoginReply {
    /// The token is valid.
    LoggedIn(LoggedIn),
    /// The name, the password or the way is wrong; the reply does not say which.
    Refused,
    /// Too many logins are tried. Nothing was carried out.
    Later {
        /// The time in milliseconds after which to try again.
        after_ms: u32,
    },
}

impl LoginReply {
    /// Returns the reply to a login that has to wait: the client tries again after `delay`.
    pub fn later(delay: Duration) -> Self {
        Self::Later {
            after_ms: after_ms(delay),
        }
    }
}

/// A login that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedIn {
    /// The time from which the token is valid.
    pub start: MasterTime,
    /// The time until which the token is valid.
    pub expire: MasterTime,
    /// The rules of the user, as `external_auth` has them: a list.
    pub permissions: Packed,
}

/// The way in which a user of an API asked for something, by Salt's names. `netapi_enable_clients` says which ones are
/// enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NetapiClient {
    /// A job, whose returns are waited for.
    Local,
    /// A job that is only begun.
    LocalAsync,
    /// A job in batches.
    LocalBatch,
    /// A job on some of the minions that match.
    LocalSubset,
    /// A function of the master, whose end is waited for.
    Runner,
    /// A function of the master that is only begun.
    RunnerAsync,
    /// What concerns keys and the configuration of the master.
    Wheel,
    /// The same, without waiting.
    WheelAsync,
}

impl NetapiClient {
    /// Every client.
    pub const ALL: [Self; 8] = [
        Self::Local,
        Self::LocalAsync,
        Self::LocalBatch,
        Self::LocalSubset,
        Self::Runner,
        Self::RunnerAsync,
        Self::Wheel,
        Self::WheelAsync,
    ];

    /// Returns Salt's name of the client.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::LocalAsync => "local_async",
            Self::LocalBatch => "local_batch",
            Self::LocalSubset => "local_subset",
            Self::Runner => "runner",
            Self::RunnerAsync => "runner_async",
            Self::Wheel => "wheel",
            Self::WheelAsync => "wheel_async",
        }
    }

    /// Returns the client of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }
}

/// A request in the name of the user who logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActAsRequest {
    /// The token of the login.
    pub token: LoginToken,
    /// The client of the API by which the user asks; none on the command line. A key of an API may give no order without one.
    pub client: Option<NetapiClient>,
    /// The encoded [`OperatorRequest`](super::OperatorRequest). It is decoded once, and is none that logs in, logs out or acts
    /// for somebody: so it cannot nest.
    pub request: Box<[u8]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_name_of_its_own() {
        for client in NetapiClient::ALL {
            assert_eq!(NetapiClient::parse(client.name()), Some(client));
        }
        assert_eq!(NetapiClient::parse("ssh"), None);
    }

    #[test]
    fn neither_passwords_nor_tokens_are_shown() {
        let request = LoginRequest {
            user: "alice".to_owned(),
            password: Password::new("hunter2".to_owned()),
            eauth: "file".to_owned(),
            token: LoginToken([0xab; 32]),
        };
        let shown = format!("{request:?}");
        assert!(shown.contains("alice"), "{shown}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("171"),
            "{shown}"
        );
    }
}
