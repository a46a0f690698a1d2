//! Which characters of a peer's text may reach a person: in a log, and on a terminal.
//!
//! Escaped text is for reading. It cannot be read back, because a backslash stays as it is.
//!
//! Each output escapes the characters that would command a terminal, and the log escapes its fields: what a peer
//! says is data.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns whether `c` may be printed as it is. Not so control characters (C0, DEL, C1), characters that
/// end a line, and those that change the direction of writing, which let a text show as another one.
pub fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Returns `text` as one line: what is not printable is written as Python writes it, `\x1b`, `\n`.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, is_printable)
}

/// Returns `text` with its line ends (`\n`) and tabs as they are, and the rest as
/// [`escape_line`] writes it.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t') || is_printable(c))
}

/// Returns a number with its noun, whose plural ends in `s`: `1 minion`, `2 minions`.
pub fn number_of(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Most texts are ASCII, which the processor looks at many bytes at a time when no byte ends the loop.
    let is_plain = |bytes: &[u8]| {
        let plain = bytes.iter().map(|&b| b.is_ascii() & stays(char::from(b)));
        plain.fold(true, |all, plain| all & plain)
    };
    if text.as_bytes().chunks(1024).all(is_plain) || text.chars().all(&stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a `String` does not fail.
        let _ = match (c, u32::from(c)) {
            (c, _) if stays(c) => out.write_char(c),
            ('\n', _) => out.write_str("\\n"),
            ('\r', _) => out.write_str("\\r"),
            ('\t', _) => out.write_str("\\t"),
            (_, code @ ..=0xff) => write!(out, "\\x{code:02x}"),
            (_, code) => write!(out, "\\u{code:04x}"),
        };
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_commands_a_terminal_is_escaped() {
        for (text, line, lines) in [
            ("plain ä €", "plain ä €", "plain ä €"),
            ("a\tb\nc\r", r"a\tb\nc\r", "a\tb\nc\\r"),
            ("\x1b[2J\0\x7f", r"\x1b[2J\x00\x7f", r"\x1b[2J\x00\x7f"),
            ("\u{9b}\u{85}", r"\x9b\x85", r"\x9b\x85"),
            (
                "\u{202e}\u{2067}\u{2028}",
                r"\u202e\u2067\u2028",
                r"\u202e\u2067\u2028",
            ),
        ] {
            assert_eq!(escape_line(text), line);
            assert_eq!(escape_lines(text), lines);
        }
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_printable(characters in proptest::collection::vec(any::<char>(), 0..40)) {
            let text = String::from_iter(characters);
            prop_assert!(escape_line(&text).chars().all(is_printable));
            let escaped = escape_line(&text);
            prop_assert_eq!(escape_line(&escaped), &*escaped, "twice is as good as once");
        }
    }
}
