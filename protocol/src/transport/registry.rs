//! The registry: the transports that a program can use, as a value.
//!
//! The contract names the layer here and nowhere else: a transport that comes out of a registry is always wrapped.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    Address, Endpoint, Error, ErrorKind, HostPort, OptionValue, Options, Result, Transport,
};
use crate::layer;

/// From scheme to transport. There are no statics and no code before `main`: whoever builds a
/// daemon says which transports it has.
///
/// A transport that comes out of a registry is wrapped in the [layer](mod@crate::layer), so that no backend has to
/// check sizes or count by itself, and none can forget to.
///
/// ```
/// use saline_protocol::transport::{ErrorKind, Registry, Transport};
///
/// /// A daemon's transports: one of a crate of its own, beside the others.
/// fn with_mine(others: Registry, mine: impl Transport + 'static) -> Registry {
///     others.with(mine)
/// }
///
/// let error = Registry::new().get("smoke-signals").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Config);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Registry {
    transports: BTreeMap<&'static str, Arc<dyn Transport>>,
    network_default: Option<&'static str>,
    local_default: Option<&'static str>,
}

impl Registry {
    /// Without transports.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more; it replaces one of the same scheme. The first one is the default for networks,
    /// and the first with local endpoints the default for those, until said otherwise.
    #[must_use]
    pub fn with(mut self, transport: impl Transport + 'static) -> Self {
        let scheme = transport.scheme();
        self.network_default.get_or_insert(scheme);
        if transport.capabilities().local_endpoints {
            self.local_default.get_or_insert(scheme);
        }
        self.transports.insert(scheme, Arc::new(transport));
        self
    }

    /// The same, with `scheme` serving networks where the configuration does not say. One that is not
    /// registered shows when it is asked for, by [`get`](Self::get).
    #[must_use]
    pub fn with_network_default(mut self, scheme: &'static str) -> Self {
        self.network_default = Some(scheme);
        self
    }

    /// The same, with `scheme` serving local endpoints where the configuration does not say. One that
    /// is not registered shows when it is asked for.
    #[must_use]
    pub fn with_local_default(mut self, scheme: &'static str) -> Self {
        self.local_default = Some(scheme);
        self
    }

    /// Returns the transport of `scheme`, in the [layer](mod@crate::layer).
    ///
    /// # Errors
    /// `Config` for a scheme that is not registered; the error lists those that are.
    pub fn get(&self, scheme: &str) -> Result<Arc<dyn Transport>> {
        match self.transports.get(scheme) {
            Some(transport) => Ok(layer::wrap(Arc::clone(transport))),
            None => Err(Error::new(
                ErrorKind::Config,
                format!(
                    "unknown transport {scheme:?}; known are: {}",
                    self.schemes().collect::<Vec<_>>().join(", ")
                ),
            )),
        }
    }

    /// The schemes that are registered, in alphabetical order.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> {
        self.transports.keys().copied()
    }

    /// Returns the transport for networks where the configuration names none.
    ///
    /// # Errors
    /// `Config` when nothing is registered.
    pub fn network_default(&self) -> Result<&'static str> {
        self.network_default
            .ok_or_else(|| Error::new(ErrorKind::Config, "no transport is built in"))
    }

    /// Returns the endpoints of one server over networks, by each of these schemes, or by the default where there are none. A
    /// scheme has its addresses and, if it is in `options`, options of its transport, which are checked.
    ///
    /// # Errors
    /// `Config` for a scheme that is not registered, and for options that its transport does not take.
    pub fn network_endpoints(
        &self,
        schemes: &[String],
        addresses: impl Fn(&str) -> Vec<HostPort>,
        options: &BTreeMap<String, Vec<(String, OptionValue)>>,
    ) -> Result<Vec<Endpoint>> {
        let schemes = match schemes {
            [] => vec![self.network_default()?.to_owned()],
            schemes => schemes.to_vec(),
        };
        let endpoint = |scheme: String| {
            let given = options.get(&scheme).cloned().unwrap_or_default();
            Ok(Endpoint {
                options: Options::check(self.get(&scheme)?.options(), given)?,
                address: Address::Network {
                    addresses: addresses(&scheme),
                    path: None,
                },
                scheme,
            })
        };
        schemes.into_iter().map(endpoint).collect()
    }

    /// Returns the transport whose local endpoints every user of this machine can be let in at.
    ///
    /// # Errors
    /// `Config` when no registered transport has such.
    pub fn for_local_users(&self) -> Result<&'static str> {
        let able = |transport: &Arc<dyn Transport>| transport.capabilities().local_users;
        let mut transports = self.transports.iter();
        let found = transports.find(|(_, transport)| able(transport));
        found.map(|(scheme, _)| *scheme).ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "no transport with local endpoints for every user is built in",
            )
        })
    }

    /// Returns the transport for local endpoints where the configuration names none.
    ///
    /// # Errors
    /// `Config` when no registered transport has local endpoints.
    pub fn local_default(&self) -> Result<&'static str> {
        self.local_default.ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "no transport with local endpoints is built in",
            )
        })
    }
}
