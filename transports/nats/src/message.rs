//! What the two ends of a virtual connection say to each other, and how it is asked for.

/// The version of these messages. A greeting of another one is refused with a reason.
pub(crate) const VERSION: u8 = 1;

/// The bytes in front of what a message carries: its kind and its number.
pub(crate) const HEADER: usize = 9;

/// The length of the random name of a connection, and of an instance of a server: 16 bytes in Base64 for URLs.
pub(crate) const NAME: usize = 22;

/// The most text of a refusal that is looked at.
const MAX_REASON: usize = 512;

/// What a message of a connection is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content<'m> {
    /// The server takes the connection: the instance of it that serves.
    Welcome(Announcement<'m>),
    /// The server does not take the connection, for this reason.
    Refused(String),
    /// Bytes of the pipe.
    Data(&'m [u8]),
    /// How many bytes the peer may have sent, from the first one on.
    Credit(u64),
    /// Nothing follows.
    End,
    /// The connection is cut. Its number counts for nothing.
    Cut,
}

/// A message of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered<'m> {
    /// Its number among the messages of its direction, from 0 on.
    pub(crate) number: u64,
    pub(crate) content: Content<'m>,
}

/// Names the instance of a server and the connection to NATS over which it serves: both are new after a restart, and the
/// second one after a loss of that connection too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Announcement<'m> {
    pub(crate) instance: &'m str,
    pub(crate) epoch: u64,
}

/// A client asks for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hello<'m> {
    /// Of this version, under this name.
    Connection(&'m str),
    /// Of another version, under this name.
    Foreign(u8, &'m str),
}

const WELCOME: u8 = b'W';
const REFUSED: u8 = b'R';
const DATA: u8 = b'D';
const CREDIT: u8 = b'C';
const END: u8 = b'E';
const CUT: u8 = b'X';

impl<'m> Numbered<'m> {
    /// Reads a message.
    ///
    /// # Errors
    /// With what is wrong with it.
    pub(crate) fn decode(bytes: &'m [u8]) -> Result<Self, &'static str> {
        let (kind, rest) = bytes.split_first().ok_or("an empty message")?;
        let (number, rest) = number(rest).ok_or("a message without a number")?;
        let content = match *kind {
            WELCOME => {
                Content::Welcome(Announcement::decode(rest).ok_or("a welcome that is malformed")?)
            }
            REFUSED => Content::Refused(reason(rest)),
            DATA if !rest.is_empty() => Content::Data(rest),
            DATA => return Err("a message without bytes"),
            CREDIT => match self::number(rest) {
                Some((credit, [])) => Content::Credit(credit),
                _ => return Err("a credit that is malformed"),
            },
            END if rest.is_empty() => Content::End,
            CUT if rest.is_empty() => Content::Cut,
            _ => return Err("a message of an unknown kind"),
        };
        Ok(Self { number, content })
    }

    /// Returns the message as it travels; data has [a header](data_header) instead, so that it is not copied.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let kind = match self.content {
            Content::Welcome(_) => WELCOME,
            Content::Refused(_) => REFUSED,
            Content::Data(_) => DATA,
            Content::Credit(_) => CREDIT,
            Content::End => END,
            Content::Cut => CUT,
        };
        let mut bytes = header(kind, self.number).to_vec();
        match &self.content {
            Content::Welcome(announcement) => bytes.extend(announcement.encode()),
            Content::Refused(why) => bytes.extend_from_slice(why.as_bytes()),
            Content::Data(data) => bytes.extend_from_slice(data),
            Content::Credit(credit) => bytes.extend(credit.to_be_bytes()),
            Content::End | Content::Cut => {}
        }
        bytes
    }
}

/// Returns what stands in front of the bytes of a data message.
pub(crate) fn data_header(number: u64) -> [u8; HEADER] {
    header(DATA, number)
}

/// Returns a message that cuts a connection.
pub(crate) fn cut() -> [u8; HEADER] {
    header(CUT, 0)
}

/// Whether a message says that its sender has ended the connection, so that nothing need be said of it to him.
pub(crate) fn says_the_end(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(END | CUT)))
}

fn header(kind: u8, number: u64) -> [u8; HEADER] {
    let mut header = [kind; HEADER];
    header[1..].copy_from_slice(&number.to_be_bytes());
    header
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

/// Returns the text of a refusal, as far as it can be shown, in at most [`MAX_REASON`] bytes.
fn reason(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_REASON)];
    let shown = |c: &char| !c.is_control();
    let text = String::from_utf8_lossy(bytes);
    let mut reason: String = text.chars().filter(shown).collect();
    // A byte that is no UTF-8 is three of the character that replaces it.
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    reason
}

fn name(bytes: &[u8]) -> Option<&str> {
    let name = str::from_utf8(bytes).ok()?;
    (name.len() == NAME && crate::subjects::is_token(name)).then_some(name)
}

impl<'m> Announcement<'m> {
    /// Reads an announcement; none when it is none of this version.
    pub(crate) fn decode(bytes: &'m [u8]) -> Option<Self> {
        let (instance, rest) = bytes.strip_prefix(&[VERSION])?.split_at_checked(NAME)?;
        match number(rest) {
            Some((epoch, [])) => Some(Self {
                instance: name(instance)?,
                epoch,
            }),
            _ => None,
        }
    }

    /// Returns the announcement as it travels.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(self.instance.as_bytes());
        bytes.extend(self.epoch.to_be_bytes());
        bytes
    }
}

impl<'m> Hello<'m> {
    /// Reads a greeting; none when it is none, of whatever version.
    pub(crate) fn decode(bytes: &'m [u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        // Every version begins like this, so that it can be refused with a reason.
        let id = name(rest.get(..NAME)?)?;
        match (*version, rest.len()) {
            (VERSION, NAME) => Some(Self::Connection(id)),
            (VERSION, _) => None,
            (version, _) => Some(Self::Foreign(version, id)),
        }
    }

    /// Returns the greeting of this version for a connection of this name.
    pub(crate) fn encode(id: &str) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(id.as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "abcdefghijklmnopqr-_AZ";

    fn content() -> impl Strategy<Value = Content<'static>> {
        let welcome = |epoch| {
            Content::Welcome(Announcement {
                instance: ID,
                epoch,
            })
        };
        prop_oneof![
            any::<u64>().prop_map(welcome),
            "[ -~]{0,100}".prop_map(Content::Refused),
            Just(Content::Data(b"bytes")),
            any::<u64>().prop_map(Content::Credit),
            Just(Content::End),
            Just(Content::Cut),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(number in any::<u64>(), content in content()) {
            let message = Numbered { number, content };
            let bytes = message.encode();
            prop_assert_eq!(Numbered::decode(&bytes), Ok(message.clone()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(message) = Numbered::decode(&bytes) {
                // A refusal may hold what is not shown.
                if !matches!(message.content, Content::Refused(_)) {
                    prop_assert_eq!(message.encode(), bytes.clone());
                }
            }
            if let Some(announcement) = Announcement::decode(&bytes) {
                prop_assert_eq!(announcement.encode(), bytes.clone());
            }
            let _ = Hello::decode(&bytes);
        }
    }

    #[test]
    fn a_greeting_of_another_version_is_told_apart() {
        let mut hello = Hello::encode(ID);
        assert_eq!(Hello::decode(&hello), Some(Hello::Connection(ID)));
        hello.push(0);
        assert_eq!(Hello::decode(&hello), None);
        hello[0] = 2;
        assert_eq!(Hello::decode(&hello), Some(Hello::Foreign(2, ID)));
        assert_eq!(Hello::decode(b"\x01short"), None);
        assert_eq!(
            Hello::decode(&Hello::encode("a.cdefghijklmnopqr-_AZ")),
            None
        );
    }

    #[test]
    fn a_refusal_is_one_line_of_some_length() {
        let text = format!("{}\n\u{7}{}", "a", "b".repeat(2 * MAX_REASON));
        let refused = Numbered {
            number: 0,
            content: Content::Refused(text),
        };
        let bytes = refused.encode();
        let Content::Refused(why) = Numbered::decode(&bytes).unwrap().content else {
            panic!("another kind");
        };
        assert_eq!(why.len(), MAX_REASON - 2);
    }

    #[test]
    fn a_refusal_that_is_no_text_is_no_longer_than_another() {
        let why = reason(&[0xff; 2 * MAX_REASON]);
        assert_eq!(why, "\u{fffd}".repeat(MAX_REASON / 3));
        assert_eq!(reason(why.as_bytes()), why);
    }
}
