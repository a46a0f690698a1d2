//! How questions travel to the program, and its verdicts back.

use std::io::{self, Read, Write};

use zeroize::Zeroizing;

/// The longest name or password, in bytes.
pub const MAX_TEXT: usize = 1_024;

/// The bytes of a question before its texts: number (4), kind, lengths (2 each), all little-endian.
const HEAD: usize = 9;

/// The bytes of a verdict: the number of its question (4), and the verdict.
const VERDICT: usize = 5;

/// The byte, and the exit code, of a right password: none that a process ends with by accident, as when a module calls `exit(0)`.
const RIGHT: u8 = 0x5a;

/// What PAM says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The password is right, and the account may be used.
    Right,
    /// The password is wrong, there is no such user, or the account is locked or has expired.
    Wrong,
    /// PAM could not be asked; the program's own log says why.
    Failed,
}

impl Verdict {
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Self::Right => RIGHT,
            Self::Wrong => 1,
            Self::Failed => 2,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Self {
        match byte {
            RIGHT => Self::Right,
            1 => Self::Wrong,
            _ => Self::Failed,
        }
    }
}

/// What is to be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The password, and then the account.
    Login,
    /// The account alone: somebody who logged in before.
    Account,
}

/// A question.
pub(crate) struct Question {
    /// Its number, which its verdict has too.
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) user: String,
    /// Empty for an account.
    pub(crate) password: Zeroizing<String>,
}

impl Question {
    /// Writes the question in one call.
    ///
    /// # Errors
    /// When a text is longer than [`MAX_TEXT`] or has a zero byte, or the other side is gone.
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (user, password) = (self.user.as_bytes(), self.password.as_bytes());
        let mut bytes = Zeroizing::new(Vec::with_capacity(HEAD + user.len() + password.len()));
        bytes.extend(self.number.to_le_bytes());
        bytes.push(match self.kind {
            Kind::Login => 0,
            Kind::Account => 1,
        });
        for text in [user, password] {
            let length = u16::try_from(text.len()).ok();
            let fits = text.len() <= MAX_TEXT && !text.contains(&0);
            let length = length.filter(|_| fits).ok_or(io::ErrorKind::InvalidInput)?;
            bytes.extend(length.to_le_bytes());
        }
        bytes.extend(user);
        bytes.extend(password);
        to.write_all(&bytes)
    }

    /// Reads a question; none when the other side has ended.
    ///
    /// # Errors
    /// When the bytes are no question.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD];
        if from.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut head[1..])?;
        let [n0, n1, n2, n3, kind, u0, u1, p0, p1] = head;
        let kind = match kind {
            0 => Kind::Login,
            1 => Kind::Account,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let mut text = |length: [u8; 2]| {
            let length = usize::from(u16::from_le_bytes(length));
            if length > MAX_TEXT {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            let mut bytes = Zeroizing::new(vec![0; length]);
            from.read_exact(&mut bytes)?;
            let text = std::str::from_utf8(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
            match text.contains('\0') {
                false => Ok(Zeroizing::new(text.to_owned())),
                true => Err(io::ErrorKind::InvalidData.into()),
            }
        };
        let user = text([u0, u1])?.to_string();
        let password = text([p0, p1])?;
        Ok(Some(Self {
            number: u32::from_le_bytes([n0, n1, n2, n3]),
            kind,
            user,
            password,
        }))
    }
}

/// Writes the verdict about a question in one call.
pub(crate) fn write_verdict(to: &mut impl Write, number: u32, verdict: Verdict) -> io::Result<()> {
    let [n0, n1, n2, n3] = number.to_le_bytes();
    to.write_all(&[n0, n1, n2, n3, verdict.to_byte()])
}

/// Reads a verdict, with the number of its question; none when the other side has ended.
pub(crate) fn read_verdict(from: &mut impl Read) -> io::Result<Option<(u32, Verdict)>> {
    let mut bytes = [0; VERDICT];
    if from.read(&mut bytes[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut bytes[1..])?;
    let [n0, n1, n2, n3, verdict] = bytes;
    Ok(Some((
        u32::from_le_bytes([n0, n1, n2, n3]),
        Verdict::from_byte(verdict),
    )))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_question_is_read_as_it_was_written(number: u32, user in "\\PC{0,40}", password in "\\PC{0,40}") {
            let question = Question {
                number,
                kind: Kind::Login,
                user: user.clone(),
                password: Zeroizing::new(password.clone()),
            };
            let mut bytes = Vec::new();
            question.write(&mut bytes).unwrap();
            let read = Question::read(&mut bytes.as_slice()).unwrap().unwrap();
            prop_assert_eq!((read.number, read.kind), (number, Kind::Login));
            prop_assert_eq!((read.user, read.password.as_str()), (user, password.as_str()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Question::read(&mut bytes.as_slice());
            let _ = read_verdict(&mut bytes.as_slice());
        }
    }

    #[test]
    fn a_process_that_ends_well_by_accident_has_not_said_that_a_password_is_right() {
        for byte in 0..=u8::MAX {
            let verdict = Verdict::from_byte(byte);
            assert_eq!(verdict == Verdict::Right, byte == 0x5a, "{byte}");
        }
        for verdict in [Verdict::Right, Verdict::Wrong, Verdict::Failed] {
            assert_eq!(Verdict::from_byte(verdict.to_byte()), verdict);
        }
    }

    #[test]
    fn texts_that_are_too_long_or_have_a_zero_byte_are_not_sent() {
        for user in ["a\0b".to_owned(), "a".repeat(MAX_TEXT + 1)] {
            let question = Question {
                number: 1,
                kind: Kind::Account,
                user,
                password: Zeroizing::default(),
            };
            assert!(question.write(&mut Vec::new()).is_err());
        }
    }
}
