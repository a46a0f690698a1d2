//! The local endpoint at which a daemon serves its event bus on this machine.

use std::path::PathBuf;
use std::sync::Arc;

use saline_protocol::transport::{Endpoint, Registry, Result, ServeAt, Transport};

/// Returns the transport of local endpoints, that of `ipc_transport` or else the default of the registry, and where it serves:
/// requests at one path, and publications at the other for a transport that has them apart.
///
/// # Errors
/// When the registry has no such transport.
pub fn local_endpoint(
    registry: &Registry,
    ipc_transport: Option<&str>,
    requests: PathBuf,
    publications: PathBuf,
) -> Result<(Arc<dyn Transport>, ServeAt)> {
    let scheme = match ipc_transport {
        Some(scheme) => scheme,
        None => registry.local_default()?,
    };
    let transport = registry.get(scheme)?;
    let apart = transport.capabilities().publications_apart;
    let at = ServeAt {
        requests: Endpoint::local(scheme.to_owned(), requests),
        publications: apart.then(|| Endpoint::local(scheme.to_owned(), publications)),
    };
    Ok((transport, at))
}
