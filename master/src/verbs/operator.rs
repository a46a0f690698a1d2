//! Carries out the requests of operators.

use saline_messages::{ActAsRequest, Class, DecodeError, OperatorReply, OperatorRequest};

use crate::authorize::{About, Action, Authorizer, Principal, Verb};
use crate::bounds::{OperatorBudgets, TokenBuckets};
use crate::decisions::{Decisions, Details};
use crate::jobs::StoreError;
use crate::orders::{CancelOrder, KeyOrder, OrderError, PublishOrder};
use crate::publisher::MinionPublisher;

use super::target_queries::unresolved;
use super::{
    EventsVerb, JobQueries, LastSeenQueries, LoginVerbs, RunnerVerb, TargetQueries, TokenVerbs,
    UploadVerbs,
};

/// Carries out the requests of those who give orders.
#[derive(Debug)]
pub struct OperatorVerbs {
    pub(crate) budgets: OperatorBudgets,
    pub(crate) authorizer: Authorizer,
    pub(crate) decisions: Decisions,
    pub(crate) publish: PublishOrder,
    pub(crate) queries: JobQueries,
    pub(crate) keys: KeyOrder,
    pub(crate) cancel: CancelOrder,
    pub(crate) targets: TargetQueries,
    pub(crate) runners: RunnerVerb,
    pub(crate) last_seen: LastSeenQueries,
    pub(crate) publisher: MinionPublisher,
    pub(crate) tokens: TokenVerbs,
    pub(crate) uploads: UploadVerbs,
    pub(crate) events: EventsVerb,
    pub(crate) logins: LoginVerbs,
    /// The lines of the log that each owner of orders causes.
    pub(crate) limiter: TokenBuckets<String>,
}

impl OperatorVerbs {
    /// Says in the log that a principal sent what is no request, if it was not said a moment ago.
    pub fn report_malformed(&self, principal: &Principal, class: Class, error: &DecodeError) {
        if self.limiter.allows(&principal.owner()) {
            tracing::warn!(
                "{} sent a request that cannot be decoded ({class}): {error}",
                principal.log_name()
            );
        }
    }

    /// Carries out the request of a principal, as far as it may have that and its budget allows it.
    pub async fn carry_out(
        &self,
        principal: &Principal,
        request: OperatorRequest,
    ) -> OperatorReply {
        if let Err(delay) = self.budgets.draw(principal, &request) {
            tracing::debug!("{} is told to wait {delay:.1?}", principal.log_name());
            return OperatorReply::busy(delay);
        }
        match request {
            OperatorRequest::ActAs(request) => self.act_as(principal, request).await,
            request => self.do_or_fail(principal, request).await,
        }
    }

    /// Carries out a request in the name of a user who is logged in, as far as that user may have it and its own budget allows it.
    async fn act_as(&self, principal: &Principal, request: ActAsRequest) -> OperatorReply {
        let (user, asked) = match self.logins.open(principal, &request) {
            Ok(opened) => opened,
            Err(reason) => return reason.into(),
        };
        if let Err(delay) = self.budgets.draw(&user, &asked) {
            tracing::debug!("{user} is told to wait {delay:.1?}");
            return OperatorReply::busy(delay);
        }
        let waits = matches!(asked, OperatorRequest::Events(_));
        let reply = self.do_or_fail(&user, asked).await;
        // The login may have ended while events were waited for.
        match waits && !self.logins.is_valid(&request.token) {
            true => OperatorReply::NotLoggedIn,
            false => reply,
        }
    }

    async fn do_or_fail(&self, principal: &Principal, request: OperatorRequest) -> OperatorReply {
        self.decide_and_do(principal, request)
            .await
            .unwrap_or_else(|error| {
                tracing::error!("{}: a store failed: {error}", principal.log_name());
                OperatorReply::Failed(error.to_string())
            })
    }

    async fn decide_and_do(
        &self,
        principal: &Principal,
        request: OperatorRequest,
    ) -> Result<OperatorReply, StoreError> {
        // What orders, cancels and runners are about is known when their targets are resolved: they decide themselves.
        let action = Action::of(Verb::Operator(&request));
        let allowed = |about: About<'_>| {
            let decided = self.authorizer.authorize(principal, action, about);
            decided.map(drop).map_err(|refusal| refusal.line)
        };
        match request {
            OperatorRequest::Publish(request) => {
                let published = self.publish.carry_out(principal, request).await;
                published.map_or_else(refused, |published| Ok(OperatorReply::Published(published)))
            }
            OperatorRequest::Runner(request) => self.runners.carry_out(principal, request).await,
            OperatorRequest::Cancel { jid } => {
                let cancelled = self.cancel.carry_out(principal, &jid).await;
                cancelled.map_or_else(refused, |warnings| Ok(OperatorReply::Cancelling(warnings)))
            }
            OperatorRequest::Keys(request) => self.keys.carry_out(principal, request).await,
            OperatorRequest::MatchTarget {
                target,
                include_unknown,
            } => {
                let matching = self.targets.matches(principal, target, include_unknown);
                Ok(matching.await)
            }
            OperatorRequest::JobReturns { jid, after } => {
                match self.queries.refuse(principal, &jid).await? {
                    Some(refused) => Ok(refused),
                    None => self.queries.returns(&jid, after).await,
                }
            }
            OperatorRequest::JobStates { jid, after } => {
                match self.queries.refuse(principal, &jid).await? {
                    Some(refused) => Ok(refused),
                    None => self.queries.states(&jid, after).await,
                }
            }
            OperatorRequest::RotateGroupKey => {
                let details = Details::default();
                let decided = self
                    .decisions
                    .decide(principal, action, About::Nothing, details);
                let warnings = match decided.await {
                    Ok(decided) => decided.synced().await,
                    Err(why) => return Ok(OperatorReply::NotAllowed(why)),
                };
                tracing::info!("{}: rotates the group key", principal.log_name());
                self.publisher.rotate().await;
                Ok(OperatorReply::Rotated(warnings))
            }
            OperatorRequest::Tokens(request) => Ok(self.tokens.carry_out(principal, request).await),
            OperatorRequest::Upload(request) => {
                Ok(self.uploads.carry_out(principal, request).await)
            }
            OperatorRequest::Ping => Ok(match allowed(About::Nothing) {
                Ok(()) => OperatorReply::Pong(principal.name()),
                Err(why) => OperatorReply::NotAllowed(why),
            }),
            OperatorRequest::Login(request) => self.logins.log_in(principal, request).await,
            OperatorRequest::Logout(token) => self.logins.log_out(principal, token).await,
            // A request in the name of a user stands in no other one.
            OperatorRequest::ActAs(_) => Ok(OperatorReply::NotAllowed(format!(
                "{principal} may not {action} here"
            ))),
            OperatorRequest::Events(request) => self.events.carry_out(principal, request).await,
            OperatorRequest::LastSeen(minions) => Ok(match allowed(About::Nothing) {
                Ok(()) => self.last_seen.carry_out(minions).await,
                Err(why) => OperatorReply::NotAllowed(why),
            }),
        }
    }
}

/// Returns the reply to an order that was not carried out.
fn refused(error: OrderError) -> Result<OperatorReply, StoreError> {
    Ok(match error {
        OrderError::Invalid(why) => OperatorReply::Invalid(why),
        OrderError::Unresolved(error) => unresolved(error),
        OrderError::NotAllowed(why) => OperatorReply::NotAllowed(why),
        OrderError::NoSuchJob(_) => OperatorReply::NoSuchJob,
        OrderError::Randomness(error) => OperatorReply::Failed(error.to_string()),
        OrderError::Store(error) => return Err(error),
    })
}

#[cfg(test)]
mod tests {
    use saline_messages::decode;

    use super::*;
    use crate::parts::testing::{CapturedLog, TestMaster};

    #[tokio::test]
    async fn requests_that_cannot_be_decoded_do_not_fill_the_log() {
        let master = TestMaster::start(|_| ()).await;
        let verbs = master.state.operator_verbs();
        let (logged, _guard) = CapturedLog::from_now_on();
        let error = decode::<OperatorRequest>(&[0xff; 20]).unwrap_err();
        for name in ["amy", "bob"] {
            for _ in 0..1_000 {
                let principal = Principal::Operator(name.to_owned());
                verbs.report_malformed(&principal, Class::Event, &error);
            }
        }
        let text = logged.text();
        for name in ["amy", "bob"] {
            let line = format!("operator {name} sent a request that cannot be decoded");
            // One a second.
            assert!((1..10).contains(&text.matches(&line).count()), "{text}");
        }
    }
}
