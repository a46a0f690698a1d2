//! `network`: interfaces, addresses, networks and connections.

mod subnets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use if_addrs::{IfAddr, Interface};
use ipnet::IpNet;
use procfs::net::TcpState;
use saline_data::Value;
use saline_functions::{Failure, function};

use crate::grains::{hardware_addresses, host_name, node_name};
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &INTERFACES,
    &IP_ADDRS,
    &IPADDRS,
    &IP_ADDRS6,
    &IPADDRS6,
    &HW_ADDR,
    &HWADDR,
    &CONNECT,
    &ACTIVE_TCP,
    &PING,
    &GET_HOSTNAME,
    &GET_FQDN,
    &subnets::CALC_NET,
    &subnets::CONVERT_CIDR,
    &subnets::DEFAULT_ROUTE,
    &subnets::IN_SUBNET,
    &subnets::IP_IN_SUBNET,
    &subnets::IS_LOOPBACK,
    &subnets::IS_PRIVATE,
    &subnets::REVERSE_IP,
    &subnets::SUBNETS,
];

/// Returns the interfaces: whether each is `up`, its hardware address, and its addresses of IPv4 (`inet`) and IPv6 (`inet6`).
///
/// CLI Example:
///
///     saline '*' network.interfaces
#[function]
fn interfaces(_: &JobContext<'_>) -> Result<Value, Failure> {
    let mut inet: BTreeMap<String, [Vec<Value>; 2]> = BTreeMap::new();
    let hardware = hardware_addresses();
    for name in hardware.keys() {
        inet.entry(name.clone()).or_default();
    }
    for interface in addresses()? {
        let [v4, v6] = inet.entry(interface.name.clone()).or_default();
        match interface.addr {
            IfAddr::V4(address) => {
                let broadcast = address.broadcast.map(|to| Value::from(to.to_string()));
                v4.push(Value::map([
                    ("address", Value::from(address.ip.to_string())),
                    ("netmask", Value::from(address.netmask.to_string())),
                    ("broadcast", broadcast.unwrap_or_default()),
                    ("label", Value::from(interface.name)),
                ]));
            }
            IfAddr::V6(address) => {
                v6.push(Value::map([
                    ("address", Value::from(address.ip.to_string())),
                    ("prefixlen", Value::from(address.prefixlen.to_string())),
                    (
                        "scope",
                        Value::from(if address.is_link_local() {
                            "link"
                        } else {
                            "global"
                        }),
                    ),
                ]));
            }
        }
    }
    let found = inet.into_iter().map(|(name, [v4, v6])| {
        let mut entries = vec![("up", Value::Bool(is_up(&name)))];
        if let Some(address) = hardware.get(&name) {
            entries.push(("hwaddr", Value::from(address.as_str())));
        }
        for (key, list) in [("inet", v4), ("inet6", v6)] {
            if !list.is_empty() {
                entries.push((key, Value::List(list)));
            }
        }
        (name, Value::map(entries))
    });
    Ok(Value::Map(found.collect()))
}

/// Returns the addresses of IPv4, without those of the loopback interface unless `include_loopback` is set.
///
/// interface
///     Only the addresses of this interface.
///
/// cidr
///     Only the addresses in this network, such as `192.0.2.0/24`.
///
/// type
///     Only `public` or only `private` addresses.
///
/// CLI Example:
///
///     saline '*' network.ip_addrs
///     saline '*' network.ip_addrs cidr=10.0.0.0/8
#[function]
fn ip_addrs(
    _: &JobContext<'_>,
    interface: Option<String>,
    #[default(false)] include_loopback: bool,
    cidr: Option<String>,
    r#type: Option<String>,
) -> Result<Value, Failure> {
    let found = chosen(interface, include_loopback, cidr, r#type)?;
    Ok(Value::texts(
        found
            .iter()
            .filter(|one| one.is_ipv4())
            .map(ToString::to_string),
    ))
}

/// Returns the addresses of IPv4, as `network.ip_addrs` does.
///
/// CLI Example:
///
///     saline '*' network.ipaddrs
#[function]
fn ipaddrs(
    job: &JobContext<'_>,
    interface: Option<String>,
    #[default(false)] include_loopback: bool,
    cidr: Option<String>,
    r#type: Option<String>,
) -> Result<Value, Failure> {
    ip_addrs(job, interface, include_loopback, cidr, r#type)
}

/// Returns the addresses of IPv6, without those of the loopback interface unless `include_loopback` is set.
///
/// interface
///     Only the addresses of this interface.
///
/// cidr
///     Only the addresses in this network.
///
/// CLI Example:
///
///     saline '*' network.ip_addrs6
#[function]
fn ip_addrs6(
    _: &JobContext<'_>,
    interface: Option<String>,
    #[default(false)] include_loopback: bool,
    cidr: Option<String>,
) -> Result<Value, Failure> {
    let found = chosen(interface, include_loopback, cidr, None)?;
    Ok(Value::texts(
        found
            .iter()
            .filter(|one| one.is_ipv6())
            .map(ToString::to_string),
    ))
}

/// Returns the addresses of IPv6, as `network.ip_addrs6` does.
///
/// CLI Example:
///
///     saline '*' network.ipaddrs6
#[function]
fn ipaddrs6(
    job: &JobContext<'_>,
    interface: Option<String>,
    #[default(false)] include_loopback: bool,
    cidr: Option<String>,
) -> Result<Value, Failure> {
    ip_addrs6(job, interface, include_loopback, cidr)
}

/// Returns the hardware address of an interface.
///
/// CLI Example:
///
///     saline '*' network.hw_addr eth0
#[function]
fn hw_addr(_: &JobContext<'_>, iface: String) -> Result<String, Failure> {
    hardware_addresses().remove(&iface).ok_or_else(|| {
        Failure::Execution(format!("the interface {iface:?} has no hardware address"))
    })
}

/// Returns the hardware address of an interface, as `network.hw_addr` does.
///
/// CLI Example:
///
///     saline '*' network.hwaddr eth0
#[function]
fn hwaddr(job: &JobContext<'_>, iface: String) -> Result<String, Failure> {
    hw_addr(job, iface)
}

/// Tries to connect, and returns whether that worked (`result`) and what happened (`comment`). A failure has retcode 1.
///
/// host
///     A name or an address. Each address of a name is tried in turn.
///
/// port
///     A number; the name of a service is not looked up.
///
/// proto
///     `tcp` or `udp`. Over UDP one byte is sent, and nothing shows whether it arrived.
///
/// family
///     `ipv4` or `ipv6`: only addresses of this kind.
///
/// timeout
///     The seconds that connecting may take, for all addresses together. Looking the name up takes as long as the system's
///     resolver waits.
///
/// CLI Example:
///
///     saline '*' network.connect master.example.org 4506
///     saline '*' network.connect 192.0.2.1 443 timeout=2
#[function]
fn connect(
    _: &JobContext<'_>,
    host: String,
    port: u64,
    #[default("tcp")] proto: String,
    family: Option<String>,
    #[default(5)] timeout: Duration,
) -> Result<Value, Failure> {
    let port = u16::try_from(port)
        .map_err(|_| Failure::Invocation(format!("port: there is no port {port}")))?;
    let wanted: fn(&SocketAddr) -> bool = match family.as_deref() {
        None => |_| true,
        Some("ipv4") => SocketAddr::is_ipv4,
        Some("ipv6") => SocketAddr::is_ipv6,
        Some(other) => {
            let why = format!("family: {other:?} is neither ipv4 nor ipv6");
            return Err(Failure::Invocation(why));
        }
    };
    let by_tcp = match proto.as_str() {
        "tcp" => true,
        "udp" => false,
        other => {
            let why = format!("proto: {other:?} is neither tcp nor udp");
            return Err(Failure::Invocation(why));
        }
    };
    let said = |result: bool, comment: String| {
        Value::map([
            ("result", Value::Bool(result)),
            ("comment", Value::from(comment)),
        ])
    };
    let found: Vec<SocketAddr> = match (host.as_str(), port).to_socket_addrs() {
        Ok(found) => found.filter(wanted).collect(),
        Err(error) => return Ok(said(false, format!("cannot resolve {host}: {error}"))),
    };
    let Ok(share) = u32::try_from(found.len().max(1)) else {
        return Ok(said(false, format!("{host} has too many addresses")));
    };
    let mut why = format!("{host} has no such address");
    for address in found {
        let tried = match by_tcp {
            // Zero would be refused.
            true => TcpStream::connect_timeout(
                &address,
                (timeout / share).max(Duration::from_millis(1)),
            )
            .map(drop),
            false => send_byte(address),
        };
        match tried {
            Ok(()) => {
                return Ok(said(
                    true,
                    format!("connected to {host} ({address}) over {proto}"),
                ));
            }
            Err(error) => {
                why = format!("cannot connect to {host} ({address}) over {proto}: {error}")
            }
        }
    }
    Ok(said(false, why))
}

/// Returns the established TCP connections, numbered, each with its addresses and ports.
///
/// CLI Example:
///
///     saline '*' network.active_tcp
#[function]
fn active_tcp(_: &JobContext<'_>) -> Result<Value, Failure> {
    let mut all = procfs::net::tcp()
        .map_err(|error| Failure::Execution(format!("cannot read /proc/net/tcp: {error}")))?;
    // A kernel without IPv6 has no such table.
    all.extend(procfs::net::tcp6().unwrap_or_default());
    let established = all.iter().filter(|one| one.state == TcpState::Established);
    let entries = established.enumerate().map(|(number, one)| {
        let connection = Value::map([
            (
                "local_addr",
                Value::from(plain(one.local_address).to_string()),
            ),
            (
                "local_port",
                Value::from(u64::from(one.local_address.port())),
            ),
            (
                "remote_addr",
                Value::from(plain(one.remote_address).to_string()),
            ),
            (
                "remote_port",
                Value::from(u64::from(one.remote_address.port())),
            ),
        ]);
        (number.to_string(), connection)
    });
    Ok(Value::map(entries))
}

/// Pings a host with the machine's `ping`, and returns what that printed, with its retcode.
///
/// host
///     A name or an address.
///
/// timeout
///     The seconds after which `ping` ends, however many answers came.
///
/// return_boolean
///     Whether to return `True` or `False` instead of the text.
///
/// CLI Example:
///
///     saline '*' network.ping 192.0.2.1
///     saline '*' network.ping master timeout=3 return_boolean=True
#[function]
fn ping(
    job: &JobContext<'_>,
    host: String,
    timeout: Option<u64>,
    #[default(false)] return_boolean: bool,
) -> Result<crate::Outcome, Failure> {
    if host.is_empty() || host.starts_with('-') {
        return Err(Failure::Invocation(format!("host: {host:?} is not a host")));
    }
    let seconds = timeout
        .filter(|seconds| *seconds > 0)
        .map(|seconds| seconds.to_string());
    let mut words = vec!["ping", "-c", "4"];
    if let Some(seconds) = &seconds {
        words.extend(["-w", seconds]);
    }
    words.extend(["--", &host]);
    let end = job.program(&words, "")?;
    let text = format!("{}{}", end.stdout, end.stderr);
    Ok(match return_boolean {
        true => crate::Outcome::from(end.retcode == 0),
        false => crate::Outcome::new(text.trim_end(), end.retcode),
    })
}

/// Returns the name of the machine, as the kernel knows it.
///
/// CLI Example:
///
///     saline '*' network.get_hostname
#[function]
fn get_hostname(_: &JobContext<'_>) -> String {
    node_name()
}

/// Returns the name of the machine with its domain, as far as the machine itself knows it.
///
/// CLI Example:
///
///     saline '*' network.get_fqdn
#[function]
fn get_fqdn(_: &JobContext<'_>) -> String {
    host_name()
}

fn addresses() -> Result<Vec<Interface>, Failure> {
    if_addrs::get_if_addrs()
        .map_err(|error| Failure::Execution(format!("cannot read the interfaces: {error}")))
}

/// Whether an interface is up; one without a carrier, such as `lo`, has an unknown state and is taken for up.
fn is_up(name: &str) -> bool {
    let state = std::fs::read_to_string(format!("/sys/class/net/{name}/operstate"));
    state.is_ok_and(|state| matches!(state.trim(), "up" | "unknown"))
}

/// Returns the addresses that an operator chose, each once, in order.
fn chosen(
    interface: Option<String>,
    include_loopback: bool,
    cidr: Option<String>,
    kind: Option<String>,
) -> Result<BTreeSet<IpAddr>, Failure> {
    let network: Option<IpNet> = cidr
        .map(|cidr| {
            cidr.parse().map_err(|_| {
                Failure::Invocation(format!(
                    "cidr: {cidr:?} is not a network such as 192.0.2.0/24"
                ))
            })
        })
        .transpose()?;
    let private = match kind.as_deref() {
        None => None,
        Some("private") => Some(true),
        Some("public") => Some(false),
        Some(other) => {
            let why = format!("type: {other:?} is neither public nor private");
            return Err(Failure::Invocation(why));
        }
    };
    let passes = |one: &Interface| {
        let address = one.ip();
        interface.as_ref().is_none_or(|name| *name == one.name)
            && (include_loopback || !address.is_loopback())
            && network.is_none_or(|network| network.contains(&address))
            && private.is_none_or(|private| is_of_private_network(address) == private)
    };
    Ok(addresses()?
        .iter()
        .filter(|one| passes(one))
        .map(Interface::ip)
        .collect())
}

fn is_of_private_network(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || v4.is_loopback() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_loopback() || v6.is_unicast_link_local(),
    }
}

/// Returns the address; one of IPv4 on a socket of IPv6 as what it is.
fn plain(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

fn send_byte(address: SocketAddr) -> std::io::Result<()> {
    let own: SocketAddr = match address {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(own)?;
    socket.connect(address)?;
    socket.send(&[0]).map(drop)
}
