//! Networks and addresses: what contains what, which needs no packet.

use std::net::IpAddr;

use ipnet::IpNet;
use saline_data::Value;
use saline_functions::{Failure, function};

use super::{addresses, is_of_private_network};
use crate::JobContext;

/// Returns the networks of IPv4 that the machine has an address in, without that of the loopback interface.
///
/// interfaces
///     A list of interfaces; without it, all.
///
/// CLI Example:
///
///     saline '*' network.subnets
#[function]
pub(super) fn subnets(
    _: &JobContext<'_>,
    interfaces: Option<Vec<String>>,
) -> Result<Value, Failure> {
    let mut networks: Vec<IpNet> = own_networks(interfaces.as_deref())?;
    networks.retain(|network| network.addr().is_ipv4());
    networks.sort_unstable();
    networks.dedup();
    Ok(Value::texts(networks.iter().map(ToString::to_string)))
}

/// Returns whether the machine has an address in a network.
///
/// cidr
///     A network, such as `192.0.2.0/24`, or an address.
///
/// CLI Example:
///
///     saline '*' network.in_subnet 10.0.0.0/16
#[function]
pub(super) fn in_subnet(_: &JobContext<'_>, cidr: String) -> Result<bool, Failure> {
    let network = network(&cidr)?;
    let mut own = addresses()?.into_iter();
    Ok(own.any(|one| network.contains(&one.ip())))
}

/// Returns whether a network contains an address.
///
/// CLI Example:
///
///     saline '*' network.ip_in_subnet 192.0.2.7 192.0.2.0/24
#[function]
pub(super) fn ip_in_subnet(
    _: &JobContext<'_>,
    ip_addr: String,
    cidr: String,
) -> Result<bool, Failure> {
    Ok(network(&cidr)?.contains(&address(&ip_addr)?))
}

/// Returns the network that an address with a mask is in.
///
/// ip_addr
///     An address, also with the length of its prefix: `192.0.2.7/24`.
///
/// netmask
///     The mask, if the address has no length.
///
/// CLI Example:
///
///     saline '*' network.calc_net 192.0.2.7 255.255.255.0
#[function]
pub(super) fn calc_net(
    _: &JobContext<'_>,
    ip_addr: String,
    netmask: Option<String>,
) -> Result<String, Failure> {
    let found = match netmask {
        None => network(&ip_addr)?,
        Some(mask) => IpNet::with_netmask(address(&ip_addr)?, address(&mask)?)
            .map_err(|_| Failure::Invocation(format!("netmask: {mask:?} is not a mask")))?,
    };
    Ok(found.trunc().to_string())
}

/// Returns the parts of a network: its `network`, its `netmask` and its `broadcast` address.
///
/// CLI Example:
///
///     saline '*' network.convert_cidr 192.0.2.7/24
#[function]
pub(super) fn convert_cidr(_: &JobContext<'_>, cidr: String) -> Result<Value, Failure> {
    let network = network(&cidr)?;
    Ok(Value::map([
        ("network", Value::from(network.network().to_string())),
        ("netmask", Value::from(network.netmask().to_string())),
        ("broadcast", Value::from(network.broadcast().to_string())),
    ]))
}

/// Returns the name that stands for an address in the domain name system.
///
/// CLI Example:
///
///     saline '*' network.reverse_ip 192.0.2.7
#[function]
pub(super) fn reverse_ip(_: &JobContext<'_>, ip_addr: String) -> Result<String, Failure> {
    Ok(match address(&ip_addr)? {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let digits = v6.octets().into_iter().rev();
            let digits = digits.flat_map(|byte| [byte & 0xf, byte >> 4]);
            let digits: Vec<String> = digits.map(|digit| format!("{digit:x}")).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    })
}

/// Returns whether an address is one of the loopback interface.
///
/// CLI Example:
///
///     saline '*' network.is_loopback 127.0.0.1
#[function]
pub(super) fn is_loopback(_: &JobContext<'_>, ip_addr: String) -> Result<bool, Failure> {
    Ok(address(&ip_addr)?.is_loopback())
}

/// Returns whether an address is one of a private network.
///
/// CLI Example:
///
///     saline '*' network.is_private 10.0.0.3
#[function]
pub(super) fn is_private(_: &JobContext<'_>, ip_addr: String) -> Result<bool, Failure> {
    Ok(is_of_private_network(address(&ip_addr)?))
}

/// Returns the default routes of the machine, as the grains `ip4_gw` and `ip6_gw` tell them.
///
/// family
///     `inet` or `inet6`; without it, both.
///
/// CLI Example:
///
///     saline '*' network.default_route
#[function]
pub(super) fn default_route(
    job: &JobContext<'_>,
    family: Option<String>,
) -> Result<Value, Failure> {
    let wanted = match family.as_deref() {
        None => &["inet", "inet6"][..],
        Some("inet") => &["inet"],
        Some("inet6") => &["inet6"],
        Some(other) => {
            let why = format!("family: {other:?} is neither inet nor inet6");
            return Err(Failure::Invocation(why));
        }
    };
    let grains = job.host.grains.all();
    let routes = wanted.iter().filter_map(|family| {
        let grain = if *family == "inet" {
            "ip4_gw"
        } else {
            "ip6_gw"
        };
        let gateway = grains
            .get(grain)
            .filter(|gateway| gateway.as_str().is_some())?;
        Some(Value::map([
            ("addr_family", Value::from(*family)),
            ("gateway", gateway.clone()),
        ]))
    });
    Ok(Value::List(routes.collect()))
}

/// Returns the networks of the machine's own addresses.
fn own_networks(interfaces: Option<&[String]>) -> Result<Vec<IpNet>, Failure> {
    let wanted = |name: &String| interfaces.is_none_or(|names| names.contains(name));
    let own = addresses()?.into_iter();
    let own = own.filter(|one| !one.is_loopback() && wanted(&one.name));
    let networks = own.filter_map(|one| {
        let mask = match &one.addr {
            if_addrs::IfAddr::V4(v4) => IpAddr::V4(v4.netmask),
            if_addrs::IfAddr::V6(v6) => IpAddr::V6(v6.netmask),
        };
        IpNet::with_netmask(one.ip(), mask).ok()
    });
    Ok(networks.map(|network| network.trunc()).collect())
}

fn network(text: &str) -> Result<IpNet, Failure> {
    let network: Option<IpNet> = text.parse().ok();
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    network
        .or_else(address)
        .ok_or_else(|| Failure::Invocation(format!("{text:?} is neither a network nor an address")))
}

fn address(text: &str) -> Result<IpAddr, Failure> {
    text.parse()
        .map_err(|_| Failure::Invocation(format!("{text:?} is not an IP address")))
}
