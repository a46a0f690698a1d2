//! Python's `repr` of texts, bytes and floats, and `splitlines`. Salt's outputs are made of these,
//! and operators compare them.

/// Returns Python's `repr` of a text.
pub fn repr_text(text: &str) -> String {
    let quote = quote_for(text.contains('\''), text.contains('"'));
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => match u32::from(c) {
                code @ ..=0xff => out.push_str(&format!("\\x{code:02x}")),
                code @ ..=0xffff => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
        }
    }
    out.push(quote);
    out
}

/// Returns Python's `repr` of bytes, which loses nothing.
pub fn repr_bytes(bytes: &[u8]) -> String {
    let quote = quote_for(bytes.contains(&b'\''), bytes.contains(&b'"'));
    let mut out = String::with_capacity(bytes.len() + 3);
    out.push('b');
    out.push(quote);
    for &byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            byte if char::from(byte) == quote => {
                out.push('\\');
                out.push(quote);
            }
            b' '..=b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(quote);
    out
}

fn quote_for(single: bool, double: bool) -> char {
    if single && !double { '"' } else { '\'' }
}

/// Implements Python's `str.isprintable` for one character. The standard library's `escape_debug`
/// uses the same categories; after another character it leaves combining marks alone.
fn is_printable(c: char) -> bool {
    if matches!(c, '"' | '\'') {
        return true;
    }
    let mut text = String::from("a");
    text.push(c);
    text.escape_debug().nth(1) == Some(c)
}

/// Returns Python's `repr` of a float: the shortest digits that read back the same, with an
/// exponent below 1e-4 and from 1e16.
pub fn repr_float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific
        .split_once('e')
        .unwrap_or((scientific.as_str(), "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => {
            let plain = number.to_string();
            if plain.contains('.') {
                plain
            } else {
                plain + ".0"
            }
        }
    }
}

/// Implements Python's `str.splitlines`.
pub fn split_lines(text: &str) -> Vec<&str> {
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r'
                | '\u{b}'
                | '\u{c}'
                | '\u{1c}'
                | '\u{1d}'
                | '\u{1e}'
                | '\u{85}'
                | '\u{2028}'
                | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        // Runs of printable ASCII are passed over without being decoded.
        let blocks = printable_blocks(rest.as_bytes());
        let mut others = rest[blocks..].bytes();
        let passed = others.position(|byte| !matches!(byte, b' '..=b'~'));
        let passed = passed.map(|passed| blocks + passed);
        let Some(at) = passed.and_then(|at| Some(at + rest[at..].find(is_end)?)) else {
            lines.push(rest);
            break;
        };
        lines.push(&rest[..at]);
        rest = &rest[at..];
        let end = match rest.strip_prefix("\r\n") {
            Some(_) => 2,
            None => rest.chars().next().map_or(0, char::len_utf8),
        };
        rest = &rest[end..];
    }
    lines
}

/// Returns the length of the blocks at the beginning that hold only printable ASCII. A block is compared at once.
fn printable_blocks(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let is_printable = |block: &&[u8]| {
        // Without an end in between, which a vector does not have.
        block
            .iter()
            .fold(true, |all, byte| all & matches!(byte, b' '..=b'~'))
    };
    BLOCK * bytes.chunks_exact(BLOCK).take_while(is_printable).count()
}

/// Implements Python's `bytes.splitlines`.
pub fn split_byte_lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some(at) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
            lines.push(rest);
            break;
        };
        lines.push(&rest[..at]);
        rest = &rest[at..];
        rest = rest.strip_prefix(b"\r\n").unwrap_or(&rest[1..]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_quoted_as_python_quotes_them() {
        for (text, expected) in [
            ("", "''"),
            ("it's", r#""it's""#),
            (r#"it's "x""#, r#"'it\'s "x"'"#),
            ("a\\b\n\r\t", r"'a\\b\n\r\t'"),
            ("\x1b[0m\x7f", r"'\x1b[0m\x7f'"),
            ("ä €\u{301}", "'ä €\u{301}'"),
            ("\u{a0}\u{200b}\u{e0001}", r"'\xa0\u200b\U000e0001'"),
        ] {
            assert_eq!(repr_text(text), expected);
        }
        assert_eq!(repr_bytes(b"\xff'\0a"), r#"b"\xff'\x00a""#);
    }

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(repr_float(number), expected);
        }
    }

    #[test]
    fn lines_end_where_python_ends_them() {
        assert_eq!(
            split_lines("a\r\nb\rc\n\nd\u{2028}e\n"),
            ["a", "b", "c", "", "d", "e"]
        );
        assert_eq!(split_lines(""), [""; 0]);
        let long = "a line of more than thirty-two bytes".repeat(3);
        assert_eq!(
            split_lines(&format!("{long}\n{long}\u{2028}é{long}")),
            [&*long, &*long, &*format!("é{long}")]
        );
        assert_eq!(
            split_byte_lines(b"a\r\n\xffb\r\rc\n"),
            [&b"a"[..], b"\xffb", b"", b"c"]
        );
    }

    proptest! {
        #[test]
        fn floats_read_back_the_same(number in any::<f64>()) {
            prop_assume!(number.is_finite());
            prop_assert_eq!(repr_float(number).parse::<f64>().unwrap(), number);
        }

        #[test]
        fn splitting_never_panics(text in any::<String>(), bytes in any::<Vec<u8>>()) {
            prop_assert!(split_lines(&text).iter().all(|line| !line.contains(['\n', '\r'])));
            prop_assert!(split_byte_lines(&bytes).iter().all(|line| !line.contains(&b'\n')));
        }
    }
}
