//! What can be set for this transport in the configuration.

use saline_protocol::transport::{Address, Endpoint, OptionKind, OptionSpec, OptionValue};

/// The options of the section `ws`.
pub(crate) const SPECS: &[OptionSpec] = &[OptionSpec {
    name: "path",
    kind: OptionKind::Text,
    secret: false,
    help: "the path of the HTTP request that opens a WebSocket, for a proxy in front (/saline)",
}];

/// Returns the path that both sides agree on.
pub(crate) fn path(endpoint: &Endpoint) -> String {
    if let Address::Network {
        path: Some(path), ..
    } = &endpoint.address
    {
        return path.clone();
    }
    match endpoint.options.get("path") {
        Some(OptionValue::Text(path)) => path.clone(),
        _ => "/saline".to_owned(),
    }
}
