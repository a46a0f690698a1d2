//! The sources of connections.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The source of a peer. Peers of one source share what is bounded for all peers, so that one source never keeps the
/// others out. A backend names it for every connection, and names the same one for all connections of a peer: a party
/// that can easily be several peers of a backend has to be one source. A source says nothing about who the peer is.
///
/// ```
/// use saline_protocol::transport::Source;
///
/// let source = |address: &str| Source::of(address.parse().unwrap());
/// assert_eq!(source("192.0.2.1:1"), source("[::ffff:192.0.2.1]:2"));
/// assert_ne!(source("192.0.2.1:1"), source("192.0.2.2:1"));
/// assert_eq!(source("[2001:db8::1]:1").to_string(), "2001:db8::/64");
/// assert_eq!("2001:db8::/64".parse(), Ok(source("[2001:db8::2]:1")));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// A peer over the network, by its address.
    Network(SourceNetwork),
    /// A user of this machine, by number: the peer of a Unix socket.
    User(u32),
    /// This process: the peer of an endpoint inside of it.
    Process,
    /// An account of a messaging system, which has authenticated it.
    Account(AccountName),
}

/// An IPv4 address, or the network of 64 bits that an IPv6 address belongs to, because whoever has one address of such a
/// network has all of them. A site often has a network of 48 or 56 bits, and so many sources; but providers also
/// give each of their customers 64 bits of one such network, and customers must not keep each other out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceNetwork(IpAddr);

/// The name of an account of a messaging system: 1 to [`MAX_ACCOUNT_NAME`] visible characters of ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName {
    /// Filled up with zeros.
    bytes: [u8; MAX_ACCOUNT_NAME],
}

/// The longest name of an account, in bytes.
pub const MAX_ACCOUNT_NAME: usize = 64;

/// A text is no [`Source`] as it is displayed, or no name of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no source of connections")]
pub struct SourceError;

impl Source {
    /// Returns the source of a peer with this address.
    pub fn of(address: SocketAddr) -> Self {
        Self::Network(SourceNetwork::of(address.ip()))
    }
}

impl SourceNetwork {
    /// Returns the network that an address counts as.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let mut octets = address.octets();
                octets[8..].fill(0);
                IpAddr::V6(Ipv6Addr::from(octets))
            }
        })
    }
}

impl AccountName {
    /// Returns the name, if it may be one.
    ///
    /// # Errors
    /// [`SourceError`] when it is empty, too long, or has other characters.
    pub fn parse(name: &str) -> Result<Self, SourceError> {
        let is_valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        let mut bytes = [0; MAX_ACCOUNT_NAME];
        let begin = bytes.get_mut(..name.len()).filter(|_| is_valid);
        begin.ok_or(SourceError)?.copy_from_slice(name.as_bytes());
        Ok(Self { bytes })
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        let name = self.bytes.split(|byte| *byte == 0).next();
        // It is ASCII.
        name.and_then(|name| str::from_utf8(name).ok())
            .unwrap_or_default()
    }
}

/// What stands in front of the number of a user, and of the name of an account.
const USER: &str = "user ";
const ACCOUNT: &str = "account ";
const PROCESS: &str = "this process";

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(SourceNetwork(IpAddr::V4(address))) => write!(f, "{address}"),
            Self::Network(SourceNetwork(IpAddr::V6(network))) => write!(f, "{network}/64"),
            Self::User(uid) => write!(f, "{USER}{uid}"),
            Self::Process => f.write_str(PROCESS),
            Self::Account(name) => write!(f, "{ACCOUNT}{}", name.as_str()),
        }
    }
}

impl FromStr for Source {
    type Err = SourceError;

    /// Reads a source as it is displayed.
    fn from_str(text: &str) -> Result<Self, SourceError> {
        if text == PROCESS {
            return Ok(Self::Process);
        }
        if let Some(uid) = text.strip_prefix(USER) {
            return uid.parse().map(Self::User).map_err(|_| SourceError);
        }
        if let Some(name) = text.strip_prefix(ACCOUNT) {
            return AccountName::parse(name).map(Self::Account);
        }
        let address = text.strip_suffix("/64").unwrap_or(text);
        let address = address.parse().map_err(|_| SourceError)?;
        Ok(Self::Network(SourceNetwork::of(address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source() -> impl Strategy<Value = Source> {
        let account = "[!-~]{1,64}".prop_map(|name| AccountName::parse(&name).unwrap());
        prop_oneof![
            any::<IpAddr>().prop_map(|address| Source::Network(SourceNetwork::of(address))),
            any::<u32>().prop_map(Source::User),
            Just(Source::Process),
            account.prop_map(Source::Account),
        ]
    }

    proptest! {
        #[test]
        fn a_source_is_read_as_it_is_displayed(source in source()) {
            prop_assert_eq!(source.to_string().parse(), Ok(source));
        }

        #[test]
        fn any_text_is_a_source_or_none(text in ".{0,80}") {
            if let Ok(source) = text.parse::<Source>() {
                prop_assert_eq!(source.to_string().parse(), Ok(source));
            }
        }
    }

    #[test]
    fn names_of_accounts_are_bounded() {
        let name = "x".repeat(MAX_ACCOUNT_NAME);
        assert_eq!(AccountName::parse(&name).unwrap().as_str(), name);
        for wrong in ["", "a b", "\u{1b}[2J", "\u{e4}", &format!("{name}x")] {
            assert_eq!(AccountName::parse(wrong), Err(SourceError), "{wrong:?}");
        }
    }
}
