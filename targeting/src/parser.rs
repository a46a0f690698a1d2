//! Parses compound expressions: `G@os:Debian and ( web* or E@db\d+ ) and not L@web1,web2`.
//!
//! `and` binds closer than `or`, `not` closer than both, and `a not b` is `a and not b`, all as in Salt. Beside
//! Salt's syntax parentheses need no spaces around them, and a term in quotation marks may hold spaces; such
//! a mark in it is doubled.

use super::error::{TargetError, TargetProblem};
use super::expression::{Expression, Term};
use super::{MAX_DEPTH, MAX_TERMS, TargetKind};

/// A token and its place in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    what: TokenKind,
    at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TokenKind {
    And,
    Or,
    Not,
    Open,
    Close,
    Term(String),
}

/// Parses a compound expression.
pub(super) fn parse(text: &str) -> Result<Expression, TargetError> {
    parse_tokens(tokens(text)?, text.trim_end().len())
}

/// Parses the words of a nodegroup that is written as a list: each is an operator, a parenthesis or a whole
/// term. Without any operator the minions of all terms are meant.
pub(super) fn parse_words(words: &[String]) -> Result<Expression, TargetError> {
    let mut read = Vec::new();
    for word in words {
        let what = match word.as_str() {
            "(" => TokenKind::Open,
            ")" => TokenKind::Close,
            word => operator(word).unwrap_or_else(|| TokenKind::Term(word.to_owned())),
        };
        let is_list = !matches!(what, TokenKind::Term(_))
            || words.iter().any(|word| operator(word).is_some());
        if !is_list && !read.is_empty() {
            let (what, at) = (TokenKind::Or, 0);
            read.push(Token { what, at });
        }
        read.push(Token { what, at: 0 });
    }
    parse_tokens(read, 0)
}

/// Whether the text of a term is read back as one term without quotation marks.
pub(super) fn is_one_word(text: &str) -> bool {
    matches!(
        tokens(text).as_deref(),
        Ok([Token { what: TokenKind::Term(read), at: 0 }]) if read == text
    )
}

fn operator(word: &str) -> Option<TokenKind> {
    match word {
        "and" => Some(TokenKind::And),
        "or" => Some(TokenKind::Or),
        "not" => Some(TokenKind::Not),
        _ => None,
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, TargetError> {
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

fn parse_tokens(tokens: Vec<Token>, end: usize) -> Result<Expression, TargetError> {
    if tokens.is_empty() {
        return Err(TargetProblem::Empty.at(0));
    }
    let mut parser = Parser {
        tokens: tokens.into_iter().peekable(),
        terms: 0,
        end,
    };
    let expression = parser.alternatives(None, 0)?;
    match parser.tokens.next() {
        None => Ok(expression),
        Some(token) => Err(match token.what {
            TokenKind::Close => TargetProblem::NotOpened,
            _ => TargetProblem::OperatorExpected,
        }
        .at(token.at)),
    }
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    terms: usize,
    /// The place of the end of the expression.
    end: usize,
}

impl Parser {
    fn peek(&mut self) -> Option<&TokenKind> {
        self.tokens.peek().map(|token| &token.what)
    }

    /// Parses terms with `or` between them. `after` is what stands before the first one.
    fn alternatives(
        &mut self,
        after: Option<&'static str>,
        depth: usize,
    ) -> Result<Expression, TargetError> {
        let mut all = vec![self.conjunction(after, depth)?];
        while self.peek() == Some(&TokenKind::Or) {
            self.tokens.next();
            all.push(self.conjunction(Some("or"), depth)?);
        }
        Ok(one_or(all, Expression::Or))
    }

    fn conjunction(
        &mut self,
        after: Option<&'static str>,
        depth: usize,
    ) -> Result<Expression, TargetError> {
        let mut all = vec![self.single(after, depth)?];
        loop {
            match self.peek() {
                Some(TokenKind::And) => {
                    self.tokens.next();
                    all.push(self.single(Some("and"), depth)?);
                }
                Some(TokenKind::Not) => all.push(self.single(None, depth)?),
                _ => return Ok(one_or(all, Expression::And)),
            }
        }
    }

    fn single(
        &mut self,
        after: Option<&'static str>,
        depth: usize,
    ) -> Result<Expression, TargetError> {
        let expected = |before: &'static str| match after {
            Some(after) => TargetProblem::TermExpectedAfter(after),
            None => TargetProblem::TermExpectedBefore(before),
        };
        let Some(Token { what, at }) = self.tokens.next() else {
            // Only what stands before it can lead here.
            return Err(TargetProblem::TermExpectedAfter(after.unwrap_or("not")).at(self.end));
        };
        if depth > MAX_DEPTH {
            return Err(TargetProblem::TooDeep.at(at));
        }
        match what {
            TokenKind::And => Err(expected("and").at(at)),
            TokenKind::Or => Err(expected("or").at(at)),
            TokenKind::Close if after.is_some() => Err(expected(")").at(at)),
            TokenKind::Close => Err(TargetProblem::NotOpened.at(at)),
            TokenKind::Not => {
                let inner = self.single(Some("not"), depth + 1)?;
                Ok(Expression::Not(Box::new(inner)))
            }
            TokenKind::Open => {
                let inner = self.alternatives(Some("("), depth + 1)?;
                match self.tokens.next() {
                    Some(Token {
                        what: TokenKind::Close,
                        ..
                    }) => Ok(inner),
                    Some(next) => Err(TargetProblem::OperatorExpected.at(next.at)),
                    None => Err(TargetProblem::NotClosed.at(at)),
                }
            }
            TokenKind::Term(text) => {
                self.terms += 1;
                if self.terms > MAX_TERMS {
                    return Err(TargetProblem::TooManyTerms.at(at));
                }
                Ok(Expression::Term(term(&text, at)?))
            }
        }
    }
}

fn one_or(mut all: Vec<Expression>, several: fn(Vec<Expression>) -> Expression) -> Expression {
    match all.len() {
        // Exactly one.
        1 => all.remove(0),
        _ => several(all),
    }
}

/// Reads a term: a letter, perhaps a delimiter, an `@` and the pattern; or a glob over ids.
fn term(text: &str, at: usize) -> Result<Term, TargetError> {
    let of = |kind, delimiter, pattern: &str| {
        let before = text.len() - pattern.len();
        if pattern.is_empty() {
            return Err(TargetProblem::PatternExpected.at(at + before));
        }
        Ok(Term {
            kind,
            delimiter,
            pattern: pattern.to_owned(),
            at: at + before,
        })
    };
    let Some((before, pattern)) = text.split_once('@') else {
        return of(TargetKind::Glob, ':', text);
    };
    let mut characters = before.chars();
    let letter = characters.next();
    let kind = letter.and_then(TargetKind::from_letter);
    match (kind, characters.next(), characters.next()) {
        (Some(kind), None, _) if kind.has_delimiter() && pattern.starts_with('@') => {
            of(kind, '@', &pattern[1..])
        }
        (Some(kind), None, _) => of(kind, ':', pattern),
        (Some(kind), Some(delimiter), None) if kind.has_delimiter() => of(kind, delimiter, pattern),
        _ if letter == Some('R') => Err(TargetProblem::Range.at(at)),
        _ => {
            let shown: String = before.chars().take(20).collect();
            Err(TargetProblem::UnknownKind(shown).at(at))
        }
    }
}
