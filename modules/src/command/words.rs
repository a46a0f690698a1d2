//! Splits a command line into words as a shell does, without a shell.

/// A quote is not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("No closing quotation")]
pub struct UnclosedQuote;

/// Splits at white space. Single quotes keep everything, double quotes everything but `\"` and
/// `\\`, a backslash the next character. Nothing is expanded.
///
/// # Errors
/// When a quote is not closed, or nothing follows a backslash.
pub fn split(line: &str) -> Result<Vec<String>, UnclosedQuote> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or(UnclosedQuote)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => double_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => {
                let c = chars.next().ok_or(UnclosedQuote)?;
                word.get_or_insert_default().push(c);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn double_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), UnclosedQuote> {
    loop {
        match chars.next().ok_or(UnclosedQuote)? {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or(UnclosedQuote)? {
                c @ ('"' | '\\') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, words) in [
            ("ls -l  /tmp", vec!["ls", "-l", "/tmp"]),
            ("echo 'a b' \"c d\"", vec!["echo", "a b", "c d"]),
            ("a\\ b 'it'\\''s'", vec!["a b", "it's"]),
            ("\"a\\\"b\" '' x\"y\"z", vec!["a\"b", "", "xyz"]),
            ("\"a\\n\" '$HOME *'", vec!["a\\n", "$HOME *"]),
            ("  ", vec![]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for line in ["'a", "\"a", "a\\", "\"a\\"] {
            assert_eq!(split(line), Err(UnclosedQuote), "{line}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in proptest::collection::vec("\\PC{0,12}", 0..6)) {
            let line: Vec<String> = words
                .iter()
                .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
                .collect();
            prop_assert_eq!(split(&line.join(" ")).unwrap(), words);
        }
    }
}
