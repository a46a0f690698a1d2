//! Reads passwords.

use std::io::{self, BufRead, IsTerminal, Read, Write};

/// The longest line that is read, in bytes.
const MAX_LINE: u64 = 4_096;

/// Asks for a password without showing it. Where the standard input is no terminal, it is the next line of it.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn ask(question: &str) -> io::Result<String> {
    let input = io::stdin();
    match input.is_terminal() {
        true => rpassword::prompt_password(question),
        false => line(&mut input.lock()),
    }
}

/// Asks for a text that is no secret. Where the standard input is no terminal, it is the next line of it.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn ask_openly(question: &str) -> io::Result<String> {
    let input = io::stdin();
    if input.is_terminal() {
        let mut screen = io::stderr();
        screen.write_all(question.as_bytes())?;
        screen.flush()?;
    }
    line(&mut input.lock())
}

/// Whether a password is typed, so that it is asked for twice where a mistake would go unnoticed.
pub(crate) fn is_typed() -> bool {
    io::stdin().is_terminal()
}

/// Reads a line without its end.
pub(crate) fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.take(MAX_LINE).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the standard input has no line",
        ));
    }
    let end = line.trim_end_matches(['\n', '\r']).len();
    line.truncate(end);
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_without_their_ends() {
        let mut input = &b"alice\r\n two \n\nlast"[..];
        let mut next = || line(&mut input).ok();
        assert_eq!(next().as_deref(), Some("alice"));
        assert_eq!(next().as_deref(), Some(" two "));
        assert_eq!(next().as_deref(), Some(""));
        assert_eq!(next().as_deref(), Some("last"));
        assert_eq!(next(), None);
    }
}
