//! The network: names, and the servers behind them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use saline_protocol::transport::{Address, Endpoint, Error, ErrorKind, HostPort, Result};

use crate::lock;
use crate::state::ServerCore;

/// The first port that is given out for port 0, as IANA's dynamic range has it.
const FIRST_FREE_PORT: u16 = 49_152;

/// What a server is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// `host:port`, compared as text.
    Network(HostPort),
    /// A path, of which nothing is made on the disk.
    Local(PathBuf),
}

/// The names of an endpoint, in its order.
pub(crate) fn names(endpoint: &Endpoint) -> Vec<Name> {
    match &endpoint.address {
        Address::Network { addresses, .. } => {
            addresses.iter().cloned().map(Name::Network).collect()
        }
        Address::Local(path) => vec![Name::Local(path.clone())],
    }
}

/// Every server of one [`InProc`](crate::InProc).
#[derive(Debug, Default)]
pub(crate) struct Hub {
    servers: Mutex<HashMap<Name, Arc<ServerCore>>>,
}

impl Hub {
    /// Binds `server` to all names of `endpoint` or to none, and returns what was bound.
    pub(crate) fn bind(&self, endpoint: &Endpoint, server: &Arc<ServerCore>) -> Result<Endpoint> {
        let mut servers = lock(&self.servers);
        let mut bound = endpoint.clone();
        let mut taken = Vec::new();
        if let Address::Network { addresses, .. } = &mut bound.address {
            for address in addresses.iter_mut().filter(|address| address.port == 0) {
                let free = (FIRST_FREE_PORT..=u16::MAX).find(|port| {
                    let name = Name::Network(HostPort::new(address.host.clone(), *port));
                    !servers.contains_key(&name) && !taken.contains(&name)
                });
                address.port = free.ok_or_else(|| {
                    Error::new(ErrorKind::Refused, format!("{endpoint}: no port is free"))
                })?;
                taken.push(Name::Network(address.clone()));
            }
        }
        let names = names(&bound);
        if let Some(used) = names.iter().find(|name| servers.contains_key(name)) {
            return Err(Error::new(
                ErrorKind::Refused,
                format!("{used:?} is in use"),
            ));
        }
        servers.extend(names.into_iter().map(|name| (name, Arc::clone(server))));
        Ok(bound)
    }

    /// The server behind `name`.
    pub(crate) fn find(&self, name: &Name) -> Option<Arc<ServerCore>> {
        lock(&self.servers).get(name).cloned()
    }

    /// Frees every name of `server`.
    pub(crate) fn release(&self, server: &Arc<ServerCore>) {
        lock(&self.servers).retain(|_, other| !Arc::ptr_eq(other, server));
    }
}
