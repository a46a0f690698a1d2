//! Splits compound expressions into tokens.

use super::MAX_TERMS;
use super::error::{TargetError, TargetProblem};

/// A token and its place in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) what: TokenKind,
    pub(super) at: usize,
}

/// The kind of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    And,
    Or,
    Not,
    Open,
    Close,
    Term(String),
}

/// Whether the text of a term is read back as one term without quotation marks.
pub(super) fn is_one_word(text: &str) -> bool {
    matches!(
        tokens(text).as_deref(),
        Ok([Token { what: TokenKind::Term(read), at: 0 }]) if read == text
    )
}

/// Returns the operator that a word is, if it is one.
pub(super) fn operator(word: &str) -> Option<TokenKind> {
    match word {
        "and" => Some(TokenKind::And),
        "or" => Some(TokenKind::Or),
        "not" => Some(TokenKind::Not),
        _ => None,
    }
}

/// Splits an expression into its tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, TargetError> {
    let mut read = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let mut begins = at;
        let (what, length) = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '(' => (TokenKind::Open, 1),
            ')' => (TokenKind::Close, 1),
            '"' | '\'' => {
                let (term, length) =
                    quoted(rest, first).ok_or(TargetProblem::QuoteNotClosed.at(at))?;
                let next = rest[length..].chars().next();
                if next.is_some_and(|c| !c.is_whitespace() && c != ')') {
                    return Err(TargetProblem::SpaceExpected.at(at + length));
                }
                begins = at + 1;
                (TokenKind::Term(term), length)
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let word = without_closing(&rest[..end]);
                let what = operator(word).unwrap_or_else(|| TokenKind::Term(word.to_owned()));
                (what, word.len())
            }
        };
        read.push(Token { what, at: begins });
        at += length;
        // Long before the tree is built, so that its memory is bounded too.
        if read.len() > 8 * MAX_TERMS {
            return Err(TargetProblem::TooManyTerms.at(at));
        }
    }
    Ok(read)
}

/// Reads a term in quotation marks. Returns it, and its length with them.
fn quoted(text: &str, mark: char) -> Option<(String, usize)> {
    let mut term = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if c != mark {
            term.push(c);
        } else if characters.peek().is_some_and(|(_, next)| *next == mark) {
            term.push(mark);
            characters.next();
        } else {
            return Some((term, at + 1));
        }
    }
    None
}

/// Returns a word without the parentheses at its end that it did not open: those of `E@web(1|2)` are its own,
/// and that of `web*)` is not. An escaped parenthesis counts neither way.
fn without_closing(word: &str) -> &str {
    // Looked at once: a word of many parentheses would take the square of its length otherwise.
    let closing = word.trim_end_matches(')').len();
    let (mut opened, mut escaped) = (0_usize, false);
    let mut own = word.len();
    for (at, c) in word.char_indices() {
        own = at + c.len_utf8();
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => opened += 1,
            ')' if opened > 0 => opened -= 1,
            // Only such parentheses follow, or it is part of a pattern that its compiler refuses.
            ')' if at >= closing => return &word[..at],
            _ => {}
        }
    }
    &word[..own]
}
