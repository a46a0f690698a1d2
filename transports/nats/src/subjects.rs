//! The subjects of one server, below the prefix of the configuration.
//!
//! A `<user>` is what NATS has authenticated, so that permissions can be about it, and never a minion's id.

use std::fmt;

use saline_protocol::transport::{AccountName, Source};

/// The longest prefix of subjects, in bytes.
pub(crate) const MAX_PREFIX: usize = 256;

/// The prefix of all subjects of one server and its clients: the option `subject`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subjects(String);

impl Subjects {
    /// Reads a prefix: tokens of letters, digits, `_` and `-`, with dots between them.
    pub(crate) fn parse(prefix: &str) -> Option<Self> {
        let is_valid = prefix.len() <= MAX_PREFIX && prefix.split('.').all(is_token);
        is_valid.then(|| Self(prefix.to_owned()))
    }

    /// Where a server that starts asks whether the name is taken.
    pub(crate) fn who(&self, user: impl fmt::Display) -> String {
        format!("{}.who.{user}", self.0)
    }

    /// Where a client asks for a connection.
    pub(crate) fn hello(&self, user: impl fmt::Display) -> String {
        format!("{}.hello.{user}", self.0)
    }

    /// Where a client sends the messages of a connection.
    pub(crate) fn up(&self, user: &str, instance: &str, connection: &str) -> String {
        format!("{}.up.{user}.{instance}.{connection}", self.0)
    }

    /// Where a server sends the messages of a connection.
    pub(crate) fn down(&self, user: &str, connection: &str) -> String {
        format!("{}.down.{user}.{connection}", self.0)
    }

    /// Every subject at which a server sends messages of a connection.
    pub(crate) fn down_of_all(&self) -> String {
        format!("{}.down.>", self.0)
    }

    /// Where a server says that it serves from now on.
    pub(crate) fn all(&self) -> String {
        format!("{}.all", self.0)
    }

    /// Returns the user in the subject of a question or of a greeting.
    pub(crate) fn user<'s>(&self, kind: &str, subject: &'s [u8]) -> Option<User<'s>> {
        let rest = subject
            .strip_prefix(self.0.as_bytes())?
            .strip_prefix(b".")?;
        let user = rest.strip_prefix(kind.as_bytes())?.strip_prefix(b".")?;
        User::parse(str::from_utf8(user).ok()?)
    }

    /// Returns what is behind `up.` in the subject of a connection's message.
    pub(crate) fn behind_up<'s>(&self, subject: &'s [u8]) -> Option<&'s [u8]> {
        subject
            .strip_prefix(self.0.as_bytes())?
            .strip_prefix(b".up.")
    }

    /// Returns what is behind `down.` in the subject of a connection's message.
    pub(crate) fn behind_down<'s>(&self, subject: &'s str) -> Option<&'s str> {
        subject.strip_prefix(&self.0)?.strip_prefix(".down.")
    }
}

impl fmt::Display for Subjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A user whom NATS has authenticated, as a token of subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User<'s>(&'s str, AccountName);

impl<'s> User<'s> {
    fn parse(token: &'s str) -> Option<Self> {
        let name = AccountName::parse(token).ok()?;
        is_token(token).then_some(Self(token, name))
    }

    /// Returns the user as text.
    pub(crate) fn as_str(self) -> &'s str {
        self.0
    }

    /// Returns what its connections count as.
    pub(crate) fn source(self) -> Source {
        Source::Account(self.1)
    }
}

/// Whether a text can be one token of a subject everywhere.
pub(crate) fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !text.is_empty() && text.bytes().all(is_plain)
}

/// Returns the token of a user: its name, with `_` for every character that a token cannot have, cut at the length of
/// the name of an account.
pub(crate) fn token_of(user: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => c,
        _ => '_',
    };
    let most = saline_protocol::transport::MAX_ACCOUNT_NAME;
    let token: String = user.chars().map(plain).take(most).collect();
    match token.is_empty() {
        true => "_".to_owned(),
        false => token,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_made_of_tokens() {
        for prefix in ["saline", "saline.prod", "a-b.c_d.E9"] {
            assert!(Subjects::parse(prefix).is_some(), "{prefix}");
        }
        for prefix in ["", ".", "saline.", "a..b", "a.*", "a.>", "a b", "ä"] {
            assert!(Subjects::parse(prefix).is_none(), "{prefix}");
        }
        assert!(Subjects::parse(&"a".repeat(MAX_PREFIX + 1)).is_none());
    }

    #[test]
    fn a_user_is_one_token_of_its_subject() {
        let subjects = Subjects::parse("saline.prod").unwrap();
        let user = |subject: &str| {
            let user = subjects.user("hello", subject.as_bytes());
            user.map(|user| user.as_str().to_owned())
        };
        assert_eq!(user(&subjects.hello("web1")), Some("web1".to_owned()));
        assert_eq!(user("saline.prod.hello.a.b"), None);
        assert_eq!(user("saline.prod.hello."), None);
        assert_eq!(user("saline.hello.a"), None);
        assert_eq!(user(&subjects.who("web1")), None);
        assert_eq!(user(&subjects.hello("x".repeat(65))), None);
    }

    #[test]
    fn a_connection_is_found_by_what_is_behind_its_kind() {
        let subjects = Subjects::parse("s").unwrap();
        let up = subjects.up("u", "i", "c");
        assert_eq!(subjects.behind_up(up.as_bytes()), Some(&b"u.i.c"[..]));
        assert_eq!(subjects.behind_down(&subjects.down("u", "c")), Some("u.c"));
        assert_eq!(subjects.behind_up(b"t.up.u.i.c"), None);
    }

    #[test]
    fn any_name_becomes_a_token() {
        for (user, token) in [
            ("web1", "web1"),
            ("web1.example", "web1_example"),
            ("é*>", "___"),
            ("", "_"),
        ] {
            assert_eq!(token_of(user), token);
            assert!(is_token(&token_of(user)));
        }
        assert_eq!(token_of(&"x".repeat(100)).len(), 64);
    }
}
