//! What can be set for this backend.

use saline_protocol::transport::{
    Address, Endpoint, Error, ErrorKind, HostPort, OptionKind, OptionSpec, OptionValue, Result,
};

/// The options of the section `ws`.
pub(crate) const SPECS: &[OptionSpec] = &[OptionSpec {
    name: "path",
    kind: OptionKind::Text,
    secret: false,
    help: "the path of the HTTP request that opens a WebSocket, for a proxy in front (/saline)",
}];

/// The path that both sides agree on.
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

/// The addresses of an endpoint.
///
/// # Errors
/// `Config` when it has none.
pub(crate) fn addresses(endpoint: &Endpoint) -> Result<&[HostPort]> {
    match &endpoint.address {
        Address::Network { addresses, .. } if !addresses.is_empty() => Ok(addresses),
        _ => Err(Error::new(
            ErrorKind::Config,
            format!("{endpoint} has no host and port, which a WebSocket needs"),
        )),
    }
}
