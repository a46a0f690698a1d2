//! The registry of built-in transports.
//!
//! Every backend stands behind a cargo feature of its own, so that a daemon built without one
//! contains nothing of it. Only a main knows this crate: everything else gets a [`Registry`].

use saline_protocol::transport::Registry;

/// Every transport between processes that was built in: what stays inside one process is no choice of an
/// operator. Where the configuration names none, ZeroMQ serves networks
/// and TCP local endpoints; without them, whichever is there.
#[must_use]
pub fn registry() -> Registry {
    let registry = Registry::new();
    // ZeroMQ is first, because the first that is registered is the default.
    #[cfg(feature = "zeromq")]
    let registry = registry.with(saline_zeromq::ZeroMq::new());
    #[cfg(feature = "tcp")]
    let registry = registry
        .with(saline_tcp::Tcp::new())
        .with_local_default("tcp");
    #[cfg(feature = "quic")]
    let registry = registry.with(saline_quic::Quic::new());
    #[cfg(feature = "nats")]
    let registry = registry.with(saline_nats::Nats::new());
    registry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "zeromq")]
    fn zeromq_is_the_default_for_networks() {
        assert_eq!(registry().network_default().unwrap(), "zeromq");
    }

    #[test]
    #[cfg(feature = "tcp")]
    fn tcp_is_the_default_for_local_endpoints() {
        assert_eq!(registry().local_default().unwrap(), "tcp");
    }

    #[test]
    #[cfg(feature = "quic")]
    fn quic_is_found_by_its_scheme() {
        assert_eq!(registry().get("quic").unwrap().scheme(), "quic");
    }

    #[test]
    #[cfg(feature = "nats")]
    fn nats_is_found_by_its_scheme() {
        assert_eq!(registry().get("nats").unwrap().scheme(), "nats");
    }

    #[test]
    fn an_unknown_scheme_is_refused() {
        assert!(registry().get("carrier-pigeon").is_err());
    }
}
