//! The clients of the HTTP API by which users ask for something: which ones are enabled, and which order goes by which.

use std::collections::BTreeSet;

use saline_messages::{KeyRequest, NetapiClient, OperatorRequest, RunnerRequest, TokenRequest};

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
            OperatorRequest::Runner(RunnerRequest::Run(_)) => Some(Self::Runner),
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
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use saline_messages::Jid;

    use super::*;

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
