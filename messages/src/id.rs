//! Names on the wire: minions, jobs, requests, sessions. Each is checked where it is decoded.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::random::{self, NoRandomness};

/// The reason why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?}: {rule}")]
pub struct IdError {
    what: &'static str,
    text: String,
    rule: &'static str,
}

impl IdError {
    fn new(what: &'static str, text: &str, rule: &'static str) -> Self {
        Self {
            what,
            // What a peer sent is shown, but not at any length.
            text: text.chars().take(64).collect(),
            rule,
        }
    }
}

/// A minion's id: 1 to 255 characters of `A-Za-z0-9._-`, not beginning with a dot or a dash.
///
/// The id is the name of a key's file, so every way to build one checks it. Clones share the text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MinionId(Arc<str>);

impl MinionId {
    /// Checks `text`.
    ///
    /// # Errors
    /// When `text` is not a valid id.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let error = |rule| Err(IdError::new("minion id", text, rule));
        if text.is_empty() || text.len() > 255 {
            return error("an id has 1 to 255 characters");
        }
        if text.starts_with(['.', '-']) {
            return error("an id does not begin with a dot or a dash");
        }
        if !text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        {
            return error("an id is made of letters, digits, dots, dashes and underscores");
        }
        Ok(Self(text.into()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A job's id, Salt's jid: 20 digits, the UTC time of its publication to the microsecond
/// (`%Y%m%d%H%M%S%f`). A master's jids always rise.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Jid([u8; 20]);

impl Jid {
    /// Checks `text`.
    ///
    /// # Errors
    /// When `text` is not twenty digits.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        match <[u8; 20]>::try_from(text.as_bytes()) {
            Ok(digits) if digits.iter().all(u8::is_ascii_digit) => Ok(Self(digits)),
            _ => Err(IdError::new("jid", text, "a jid has twenty digits")),
        }
    }

    /// Returns the jid as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("`parse` takes ASCII digits only")
    }
}

macro_rules! text_id {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.as_str().to_owned()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("the text of a ", stringify!($name)))
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::parse(text).map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

text_id!(MinionId);
text_id!(Jid);

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
        pub struct $name(pub [u8; 16]);

        impl $name {
            /// Creates a random id.
            ///
            /// # Errors
            /// When the system has no randomness.
            pub fn random() -> Result<Self, NoRandomness> {
                random::bytes().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for byte in self.0 {
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

random_id! {
    /// Identifies a request with an effect, so that it acts once if it is repeated.
    RequestId
}
random_id! {
    /// Identifies one start of a minion.
    StartId
}
random_id! {
    /// Identifies a session in the clear header of an envelope. All zero before there is one.
    SessionId
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_that_could_name_a_path_are_refused() {
        for bad in [
            "", ".", "..", "../x", "a/b", "a\\b", "a\0b", "-x", ".x", "ä", "a b", "a\n",
        ] {
            assert!(MinionId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(MinionId::parse(&"x".repeat(256)).is_err());
        for good in ["a", "web-1.example.com", "A_b", "1", &"x".repeat(255)] {
            assert!(MinionId::parse(good).is_ok(), "{good:?}");
        }
    }

    proptest! {
        #[test]
        fn decoding_checks_too(text in "\\PC{0,30}") {
            let bytes = postcard::to_stdvec(&text).unwrap();
            prop_assert_eq!(postcard::from_bytes::<MinionId>(&bytes).is_ok(), MinionId::parse(&text).is_ok());
            prop_assert_eq!(postcard::from_bytes::<Jid>(&bytes).is_ok(), Jid::parse(&text).is_ok());
        }
    }
}
