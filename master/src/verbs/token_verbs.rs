//! The verbs that make, list and revoke the tokens that let minions in.

use std::sync::Arc;
use std::time::Duration;

use saline_channel::PublicIdentity;
use saline_data::time_span;
use saline_messages::{OperatorReply, OrderWarning, TokenEntry, TokenReply, TokenRequest};
use saline_protocol::transport::Context;

use crate::authorize::{About, Action, Principal};
use crate::clock::MasterClock;
use crate::decisions::{Decisions, Details};
use crate::keys::{TokenError, TokenStore};

/// Makes, lists and revokes tokens.
#[derive(Debug)]
pub struct TokenVerbs {
    /// The master's own identity.
    pub(crate) master: PublicIdentity,
    pub(crate) decisions: Decisions,
    pub(crate) tokens: Arc<TokenStore>,
    pub(crate) context: Context,
    pub(crate) clock: MasterClock,
}

impl TokenVerbs {
    /// Carries out the request of a principal, if it may have that.
    pub(super) async fn carry_out(
        &self,
        principal: &Principal,
        request: TokenRequest,
    ) -> OperatorReply {
        let warnings = match self.decide(principal, &request).await {
            Ok(warnings) => warnings,
            Err(why) => return OperatorReply::NotAllowed(why),
        };
        let (tokens, now) = (Arc::clone(&self.tokens), self.clock.now());
        let act = move || -> Result<Vec<TokenEntry>, TokenError> {
            Ok(match request {
                TokenRequest::Make(new) => vec![tokens.make(&new, now)?],
                TokenRequest::List => tokens.list(now)?,
                TokenRequest::Revoke(name) => tokens.revoke(name)?.into_iter().collect(),
            })
        };
        match self.context.spawn_blocking(act).await {
            Ok(Ok(tokens)) => OperatorReply::Tokens(TokenReply {
                tokens,
                master: self.master.0,
                warnings,
            }),
            Ok(Err(TokenError::Invalid(why))) => OperatorReply::Invalid(why),
            Ok(Err(TokenError::Store(error))) => {
                tracing::error!("the tokens cannot be read or written: {error}");
                OperatorReply::Failed(error.to_string())
            }
            Err(_) => OperatorReply::Failed("the store of tokens failed".to_owned()),
        }
    }

    /// Decides about a request. What makes or revokes a token has a line in the audit file. Returns what the operator is warned
    /// of.
    async fn decide(
        &self,
        principal: &Principal,
        request: &TokenRequest,
    ) -> Result<Vec<OrderWarning>, String> {
        let action = Action::of_tokens(request);
        let subject = match request {
            TokenRequest::List => {
                let authorizer = &self.decisions.authorizer;
                let decided = authorizer.authorize(principal, action, About::Nothing);
                return decided.map(|_| Vec::new()).map_err(|refusal| refusal.line);
            }
            TokenRequest::Make(new) => format!(
                "make token {} for {}, valid for {}, uses {}",
                new.name,
                new.minions,
                time_span::write(Duration::from_millis(new.valid_ms)),
                new.uses
            ),
            TokenRequest::Revoke(name) => format!("revoke token {name}"),
        };
        let details = Details {
            subject: Some(subject.clone()),
            ..Details::default()
        };
        let decided = self
            .decisions
            .decide(principal, action, About::Nothing, details);
        let warnings = decided.await?.synced().await;
        tracing::info!("{}: {subject}", principal.log_name());
        Ok(warnings)
    }
}
