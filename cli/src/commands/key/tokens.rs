//! `--make-token`, `--list-tokens` and `--revoke-token`: tokens by which minions are let in without a question.

use std::io;

use saline_channel::{PresentedToken, PublicIdentity, Token};
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::{NewToken, TokenEntry, TokenName, TokenRequest};

use super::{KeyCommand, complain};
use crate::arguments::WantedToken;
use crate::dates::utc;
use crate::exit;
use crate::output::Format;
use crate::screen::Screen;

impl KeyCommand<'_> {
    /// Makes a token, and prints it alone on the standard output. This program keeps the secret: the master gets its digest.
    /// Returns the exit code.
    pub(super) async fn make_token(
        &self,
        screen: &mut Screen<'_>,
        wanted: WantedToken,
    ) -> io::Result<u8> {
        let Ok(secret) = PresentedToken::random() else {
            return Ok(complain(screen, "the system has no randomness"));
        };
        let request = TokenRequest::Make(NewToken {
            name: secret.name,
            digest: secret.digest(),
            minions: wanted.minions,
            valid_ms: wanted.valid_ms,
            uses: wanted.uses,
        });
        let reply = match self.store.tokens(screen, request).await {
            Ok(reply) => reply,
            Err(why) => return Ok(complain(screen, &why)),
        };
        let Some(made) = reply.tokens.first() else {
            return Ok(complain(screen, "the master made no token"));
        };
        let text = Token::of(secret, PublicIdentity(reply.master)).to_text();
        if self.format.is_for_programs() {
            let mut fields = describe(made);
            fields.push(("token", Value::from(text.as_str())));
            return self.print_value(screen, &Value::map(fields));
        }
        if self.format != Format::Quiet {
            screen.note(format!(
                "Token {} lets {} until {}. It is shown once: put it into the file enrolment_token (mode 0600) beside the \
                 configuration of the minion, before the minion starts for the first time.",
                made.name,
                whom(made),
                utc(made.until)
            ));
        }
        screen.line(text.as_bytes())?;
        Ok(exit::GOOD)
    }

    /// Lists the tokens that are valid. Returns the exit code.
    pub(super) async fn list_tokens(&self, screen: &mut Screen<'_>) -> io::Result<u8> {
        let reply = match self.store.tokens(screen, TokenRequest::List).await {
            Ok(reply) => reply,
            Err(why) => return Ok(complain(screen, &why)),
        };
        if self.format.is_for_programs() {
            let tokens = reply.tokens.iter().map(|token| Value::map(describe(token)));
            return self.print_value(screen, &Value::List(tokens.collect()));
        }
        if reply.tokens.is_empty() {
            self.say(screen, "There are no valid tokens.")?;
        }
        for token in &reply.tokens {
            let last = token.last.as_ref();
            let last = last.map_or_else(String::new, |id| format!(", {id} last"));
            self.say(
                screen,
                &format!(
                    "{}  for {}, until {}, used {} of {}{last}",
                    token.name,
                    escape_line(&token.minions),
                    utc(token.until),
                    token.used,
                    token.uses
                ),
            )?;
        }
        Ok(exit::GOOD)
    }

    /// Revokes a token. Returns the exit code.
    pub(super) async fn revoke_token(
        &self,
        screen: &mut Screen<'_>,
        name: TokenName,
    ) -> io::Result<u8> {
        let reply = match self.store.tokens(screen, TokenRequest::Revoke(name)).await {
            Ok(reply) => reply,
            Err(why) => return Ok(complain(screen, &why)),
        };
        let Some(revoked) = reply.tokens.first() else {
            return Ok(complain(screen, &format!("there is no token {name}")));
        };
        self.say(
            screen,
            &format!(
                "Token {name} is revoked. It was used {} of {} times; the keys that were accepted by it stay accepted.",
                revoked.used, revoked.uses
            ),
        )?;
        Ok(exit::GOOD)
    }

    fn print_value(&self, screen: &mut Screen<'_>, value: &Value) -> io::Result<u8> {
        if let Some(text) = self.format.render(value, self.style, false) {
            screen.line(text)?;
        }
        Ok(exit::GOOD)
    }
}

/// Returns what programs are told of a token.
fn describe(token: &TokenEntry) -> Vec<(&'static str, Value)> {
    let last = token.last.as_ref();
    vec![
        ("name", Value::from(token.name.to_string())),
        ("for", Value::from(token.minions.as_str())),
        ("until", Value::from(utc(token.until))),
        ("uses", Value::from(i64::from(token.uses))),
        ("used", Value::from(i64::from(token.used))),
        (
            "last",
            last.map_or(Value::Null, |id| Value::from(id.as_str())),
        ),
    ]
}

/// Returns whom a token lets in, in words.
fn whom(token: &TokenEntry) -> String {
    let minions = escape_line(&token.minions);
    match token.uses {
        1 => format!("one minion in whose id matches {minions},"),
        uses => format!("{uses} minions in whose ids match {minions},"),
    }
}
