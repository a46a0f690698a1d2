//! What one local user, or one operator with a key, may ask of the master over all of its sessions. Local root has no such
//! bound: it could stop the master.

use std::time::Duration;

use saline_messages::{KeyRequest, OperatorRequest, RunnerRequest, TokenRequest, UploadRequest};
use saline_protocol::transport::Clock;

use super::{Rate, TokenBuckets};
use crate::authorize::Principal;

/// The tokens of one principal. 20 orders a second go on without end, and 200 at once after a silence: a script that gives
/// one order after the other is not slower, and one that gives them all at once does not fill the store.
const REQUESTS: Rate = Rate {
    per_second: 200.0,
    burst: 2_000.0,
};

/// The tokens that an order takes: a commit, a line in the audit file, and what minions are sent.
const ORDER: f64 = 10.0;

/// The tokens that a question takes.
const QUESTION: f64 = 1.0;

/// The tokens that a look at the events in memory takes: hundreds of listeners of one user ask again after each event. How many
/// wait at once is bounded by [`EventWaits`](super::EventWaits). A request in the name of a user takes as little of the one who
/// brings it, who may bring those of hundreds of users: the user's own budget bounds what is asked for.
const LOOK: f64 = 0.05;

/// The largest number of principals that are told apart.
const MAX_PRINCIPALS: usize = 1_024;

/// The budgets of local users and of operators with keys.
#[derive(Debug)]
pub(crate) struct OperatorBudgets(TokenBuckets<String>);

impl OperatorBudgets {
    /// Creates the state in which nobody has asked for anything.
    pub(crate) fn new(clock: Clock) -> Self {
        Self(TokenBuckets::new(clock, REQUESTS, MAX_PRINCIPALS))
    }

    /// Takes what a request costs from the budget of the principal.
    ///
    /// # Errors
    /// When it is used up: the delay after which the principal may ask again.
    pub(crate) fn draw(
        &self,
        principal: &Principal,
        request: &OperatorRequest,
    ) -> Result<(), Duration> {
        match principal.is_local_root() {
            true => Ok(()),
            false => self.0.draw(&principal.owner(), cost(request)),
        }
    }
}

fn cost(request: &OperatorRequest) -> f64 {
    match request {
        OperatorRequest::Publish(_)
        | OperatorRequest::Cancel { .. }
        | OperatorRequest::RotateGroupKey
        | OperatorRequest::Tokens(TokenRequest::Make(_) | TokenRequest::Revoke(_))
        | OperatorRequest::Keys(
            KeyRequest::Act { .. } | KeyRequest::ActOnApis { .. } | KeyRequest::RotateIdentity,
        )
        | OperatorRequest::Upload(UploadRequest::Begin { .. })
        | OperatorRequest::Login(_)
        | OperatorRequest::Runner(RunnerRequest::Run(_)) => ORDER,
        OperatorRequest::JobReturns { .. }
        | OperatorRequest::JobStates { .. }
        | OperatorRequest::Keys(KeyRequest::List)
        | OperatorRequest::MatchTarget { .. }
        | OperatorRequest::LastSeen(_)
        | OperatorRequest::Tokens(TokenRequest::List)
        | OperatorRequest::Upload(UploadRequest::Part { .. } | UploadRequest::End { .. })
        | OperatorRequest::Ping
        | OperatorRequest::Logout(_)
        | OperatorRequest::Runner(
            RunnerRequest::Part { .. } | RunnerRequest::Kill { .. } | RunnerRequest::Keep { .. },
        ) => QUESTION,
        OperatorRequest::Events(_) | OperatorRequest::ActAs(_) => LOOK,
    }
}

#[cfg(test)]
mod tests {
    use saline_messages::{EventsRequest, Jid};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hundreds_of_listeners_of_one_principal_may_ask_after_each_of_some_events_a_second() {
        let budgets = OperatorBudgets::new(Clock);
        let api = Principal::Operator("api".to_owned());
        let look = OperatorRequest::Events(EventsRequest {
            after: None,
            prefixes: Vec::new(),
            wait_ms: 0,
        });
        for _ in 0..60 {
            let asked = (0..500 * 5).filter(|_| budgets.draw(&api, &look).is_ok());
            assert_eq!(asked.count(), 500 * 5);
            Clock.pause(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_principal_but_root_may_give_so_many_orders_in_a_time() {
        let budgets = OperatorBudgets::new(Clock);
        let jid = Jid::parse("20261121091409931549").unwrap();
        let order = OperatorRequest::Cancel { jid };
        let given = |principal: &Principal| {
            let orders = (0..1_000).take_while(|_| budgets.draw(principal, &order).is_ok());
            orders.count()
        };
        let [first, second] = ["amy", "bob"].map(|name| Principal::Operator(name.to_owned()));
        assert_eq!(given(&Principal::LocalRoot), 1_000);
        assert_eq!(given(&first), 200);
        assert!(
            budgets
                .draw(&first, &OperatorRequest::LastSeen(Vec::new()))
                .is_err()
        );
        assert_eq!(given(&second), 200, "another one");
        Clock.pause(Duration::from_secs(1)).await;
        assert_eq!(given(&first), 20);
        let delay = budgets.draw(&first, &order).unwrap_err();
        assert!(delay < Duration::from_secs(1), "{delay:?}");
        Clock.pause(delay).await;
        assert_eq!(given(&first), 1);
    }
}
