//! The clients of the HTTP API by which users ask for something: which ones are enabled, and which order goes by which. `local` and
//! `local_async` differ only in what the API answers: a master cannot tell whether an API names the right one of these.

use std::collections::BTreeSet;

use crate::authorize::fires_hook;
use saline_messages::{
    KeyRequest, NetapiClient, OperatorRequest, RunKind, RunnerRequest, TokenRequest,
};

/// A kind of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientKind {
    /// `local` and those beside it: jobs.
    Local,
    /// `runner` and `runner_async`: functions of the master.
    Runner,
    /// `wheel` and `wheel_async`: keys, and the identity of the master.
    Wheel,
}

impl ClientKind {
    fn of(client: NetapiClient) -> Self {
        match client {
            NetapiClient::Local
            | NetapiClient::LocalAsync
            | NetapiClient::LocalBatch
            | NetapiClient::LocalSubset => Self::Local,
            NetapiClient::Runner | NetapiClient::RunnerAsync => Self::Runner,
            NetapiClient::Wheel | NetapiClient::WheelAsync => Self::Wheel,
        }
    }

    /// Returns the kind of client by which a request goes; none for one that gives no order.
    fn for_request(request: &OperatorRequest) -> Option<Self> {
        match request {
            OperatorRequest::Publish(_)
            | OperatorRequest::Cancel { .. }
            | OperatorRequest::Upload(_) => Some(Self::Local),
            // The events of hooks go by none.
            OperatorRequest::Runner(RunnerRequest::Run(call))
                if call.kind == RunKind::Runner && fires_hook(&call.fun, &call.arg) =>
            {
                None
            }
            OperatorRequest::Runner(RunnerRequest::Run(call)) => Some(match call.kind {
                RunKind::Runner => Self::Runner,
                RunKind::Wheel => Self::Wheel,
            }),
            OperatorRequest::Keys(
                KeyRequest::Act { .. } | KeyRequest::ActOnApis { .. } | KeyRequest::RotateIdentity,
            )
            | OperatorRequest::Tokens(TokenRequest::Make(_) | TokenRequest::Revoke(_))
            | OperatorRequest::RotateGroupKey => Some(Self::Wheel),
            OperatorRequest::Keys(KeyRequest::List)
            | OperatorRequest::Tokens(TokenRequest::List)
            | OperatorRequest::Runner(
                RunnerRequest::Part { .. }
                | RunnerRequest::Kill { .. }
                | RunnerRequest::Keep { .. },
            )
            | OperatorRequest::JobReturns { .. }
            | OperatorRequest::JobStates { .. }
            | OperatorRequest::MatchTarget { .. }
            | OperatorRequest::LastSeen(_)
            | OperatorRequest::Ping
            | OperatorRequest::Login(_)
            | OperatorRequest::Logout(_)
            | OperatorRequest::ActAs(_)
            | OperatorRequest::Events(_) => None,
        }
    }
}

/// Whether a request of the kind of a client is one that this client sends.
fn matches_client(client: NetapiClient, request: &OperatorRequest) -> bool {
    match request {
        OperatorRequest::Publish(order) => {
            let (is_batch, is_subset) = (order.batch.size.is_some(), order.subset.is_some());
            match client {
                NetapiClient::Local => !is_batch && !is_subset,
                NetapiClient::LocalAsync => !is_subset,
                NetapiClient::LocalBatch => is_batch && !is_subset,
                NetapiClient::LocalSubset => is_subset,
                _ => false,
            }
        }
        OperatorRequest::Runner(RunnerRequest::Run(call)) => match client {
            NetapiClient::Runner | NetapiClient::Wheel => !call.is_async,
            NetapiClient::RunnerAsync | NetapiClient::WheelAsync => call.is_async,
            _ => false,
        },
        _ => true,
    }
}

/// Whether a request gives an order, so that an API has to name a client for it.
pub(crate) fn is_order(request: &OperatorRequest) -> bool {
    ClientKind::for_request(request).is_some()
}

/// Checks the client that an API names for a request.
///
/// # Errors
/// When it is not enabled, or not one for such a request: the reason, as the end of a sentence.
pub(crate) fn check(
    enabled: &BTreeSet<NetapiClient>,
    client: NetapiClient,
    request: &OperatorRequest,
) -> Result<(), String> {
    let name = client.name();
    if !enabled.contains(&client) {
        return Err(format!(
            "the client {name} is not enabled: netapi_enable_clients of the master's configuration does not name it"
        ));
    }
    match ClientKind::for_request(request) {
        Some(kind) if kind != ClientKind::of(client) => Err(format!(
            "the client {name} is not one for {}",
            request.name()
        )),
        Some(_) if !matches_client(client, request) => Err(format!(
            "the client {name} does not send this {}: local_batch alone gives a batch a size and waits for it, local_subset alone \
             names a number of minions, and the clients of runners and wheels wait for their end or do not, as their names say",
            request.name()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use saline_messages::{
        Arguments, BatchRequest, BatchSize, Jid, PublishRequest, RequestId, RunnerCall,
    };
    use saline_targeting::Target;

    use super::*;

    #[test]
    fn a_run_or_a_job_is_of_the_form_that_its_client_sends() {
        let enabled = BTreeSet::from(NetapiClient::ALL);
        let allowed = |request: &OperatorRequest| {
            let all = NetapiClient::ALL.into_iter();
            let by = all.filter(|client| check(&enabled, *client, request).is_ok());
            by.map(NetapiClient::name).collect::<Vec<_>>()
        };
        for (kind, is_async, client) in [
            (RunKind::Runner, false, "runner"),
            (RunKind::Runner, true, "runner_async"),
            (RunKind::Wheel, false, "wheel"),
            (RunKind::Wheel, true, "wheel_async"),
        ] {
            let call = RunnerCall {
                request_id: RequestId::random().unwrap(),
                kind,
                fun: "manage.up".to_owned(),
                arg: Arguments::default().pack(),
                user: String::new(),
                timeout_ms: None,
                is_async,
            };
            let run = OperatorRequest::Runner(RunnerRequest::Run(call));
            assert_eq!(allowed(&run), [client]);
        }
        let job = |size, subset| {
            OperatorRequest::Publish(PublishRequest {
                subset,
                batch: BatchRequest {
                    size,
                    ..BatchRequest::default()
                },
                ..PublishRequest::new(
                    RequestId::random().unwrap(),
                    Target::glob("*"),
                    "test.ping",
                    String::new(),
                )
            })
        };
        let plain = ["local", "local_async"];
        assert_eq!(allowed(&job(None, None)), plain);
        let batch = job(Some(BatchSize::Percent(50)), None);
        assert_eq!(allowed(&batch), ["local_async", "local_batch"]);
        let subset = job(None, Some(3));
        assert_eq!(allowed(&subset), ["local_subset"]);
        let both = job(Some(BatchSize::Percent(50)), Some(3));
        assert_eq!(allowed(&both), ["local_subset"]);
    }

    #[test]
    fn an_order_goes_by_an_enabled_client_of_its_kind() {
        let jid = Jid::parse("20261121091409931549").unwrap();
        let cancel = OperatorRequest::Cancel { jid: jid.clone() };
        let read = OperatorRequest::JobReturns { jid, after: 0 };
        let keys = OperatorRequest::RotateGroupKey;
        let enabled = BTreeSet::from([NetapiClient::LocalAsync, NetapiClient::Wheel]);
        let allowed = |client, request| check(&enabled, client, request).is_ok();
        assert!(allowed(NetapiClient::LocalAsync, &cancel));
        assert!(!allowed(NetapiClient::Local, &cancel), "not enabled");
        assert!(!allowed(NetapiClient::Wheel, &cancel), "another kind");
        assert!(allowed(NetapiClient::Wheel, &keys));
        assert!(allowed(NetapiClient::Wheel, &read), "no order");
        assert!(!allowed(NetapiClient::Runner, &read), "not enabled");
        assert_eq!(
            check(&enabled, NetapiClient::Local, &cancel).unwrap_err(),
            "the client local is not enabled: netapi_enable_clients of the master's configuration does not name it"
        );
    }
}
