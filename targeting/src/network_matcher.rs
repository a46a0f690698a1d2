//! Matches an address or a network against the addresses of a minion, its grains `ipv4` and `ipv6`.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Grains;
use super::error::{TargetError, TargetProblem};
use super::expression::Term;
use saline_data::Value;

/// A network; one address is a network with the longest prefix.
#[derive(Debug, Clone, Copy)]
pub(super) struct NetworkMatcher(IpNet);

impl NetworkMatcher {
    pub(super) fn compile(term: &Term) -> Result<Self, TargetError> {
        let text = term.pattern.trim();
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.into()));
        }
        let network = text.parse().ok().or_else(|| with_netmask(text));
        let network: IpNet = network
            .ok_or_else(|| TargetProblem::Network(text.chars().take(64).collect()).at(term.at))?;
        if network != network.trunc() {
            let (given, network) = (text.to_owned(), network.trunc().to_string());
            return Err(TargetProblem::HostBits { given, network }.at(term.at));
        }
        Ok(Self(network))
    }

    /// Whether one of the addresses in the grains is in the network.
    pub(super) fn matches(&self, grains: &dyn Grains) -> bool {
        let name = match self.0 {
            IpNet::V4(_) => "ipv4",
            IpNet::V6(_) => "ipv6",
        };
        let is_in = |value: &Value| {
            let address = value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
            address.is_some_and(|address| self.0.contains(&address))
        };
        match grains.grain(name).as_deref() {
            Some(Value::List(addresses)) => addresses.iter().any(is_in),
            Some(one) => is_in(one),
            None => false,
        }
    }
}

/// Reads a network with a mask, `10.0.0.0/255.0.0.0`.
fn with_netmask(text: &str) -> Option<IpNet> {
    let (address, mask) = text.split_once('/')?;
    IpNet::with_netmask(address.parse().ok()?, mask.parse().ok()?).ok()
}
