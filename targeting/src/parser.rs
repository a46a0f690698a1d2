//! Parses compound expressions: `G@os:Debian and ( web* or E@db\d+ ) and not L@web1,web2`.
//!
//! `and` binds closer than `or`, `not` closer than both, and `a not b` is `a and not b`, all as in Salt. Beside
//! Salt's syntax parentheses need no spaces around them, and a term in quotation marks may hold spaces; such
//! a mark in it is doubled.

use super::error::{TargetError, TargetProblem};
use super::expression::{Expression, Term};
use super::tokens::{Token, TokenKind, operator, tokens};
use super::{MAX_DEPTH, MAX_TERMS, TargetKind};

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
