//! Interfaces, addresses, gateways, and the servers of names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use saline_data::Value;

use super::names::host_name;
use super::{Entries, add, read};

pub fn add_to(found: &mut Entries) {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::warn!("cannot read the addresses of the network interfaces: {error}");
        Vec::new()
    });
    let (mut v4, mut v6) = (BTreeSet::<Ipv4Addr>::new(), BTreeSet::<Ipv6Addr>::new());
    let hardware = hardware_addresses();
    let mut all = ByInterface::default();
    let mut only4 = ByInterface::default();
    let mut only6 = ByInterface::default();
    let names = interfaces.iter().map(|i| i.name.clone());
    for name in names.chain(hardware.keys().cloned()) {
        for map in [&mut all, &mut only4, &mut only6] {
            map.entry(name.clone()).or_default();
        }
    }
    for interface in interfaces {
        let address = interface.ip();
        let texts = match address {
            IpAddr::V4(address) => {
                v4.insert(address);
                &mut only4
            }
            IpAddr::V6(address) => {
                v6.insert(address);
                &mut only6
            }
        };
        for map in [texts, &mut all] {
            let of_interface = map.entry(interface.name.clone()).or_default();
            of_interface.push(address.to_string());
        }
    }
    add(
        found,
        "ipv4",
        Value::texts(v4.iter().map(ToString::to_string)),
    );
    add(
        found,
        "ipv6",
        Value::texts(v6.iter().map(ToString::to_string)),
    );
    add(found, "ip_interfaces", as_value(all));
    add(found, "ip4_interfaces", as_value(only4));
    add(found, "ip6_interfaces", as_value(only6));
    let hardware = hardware
        .into_iter()
        .map(|(name, address)| (name, Value::Text(address)));
    add(found, "hwaddr_interfaces", Value::Map(hardware.collect()));
    let (gateway4, gateway6) = (
        gateway4(&read("/proc/net/route")),
        gateway6(&read("/proc/net/ipv6_route")),
    );
    add_names(found, gateway4.as_ref().map(|(_, name)| name.as_str()));
    let is_there = gateway4.is_some() || gateway6.is_some();
    let shown = |gateway: Option<String>| gateway.map_or(Value::Bool(false), Value::from);
    add(
        found,
        "ip4_gw",
        shown(gateway4.map(|(address, _)| address.to_string())),
    );
    add(
        found,
        "ip6_gw",
        shown(gateway6.map(|address| address.to_string())),
    );
    add(found, "ip_gw", is_there);
    add(found, "dns", name_servers(&read("/etc/resolv.conf")));
}

/// Adds the addresses that the machine itself gives its full name: those in `/etc/hosts`, else those of the interface that leads to
/// the default gateway. No name server is asked.
fn add_names(found: &mut Entries, to_gateway: Option<&str>) {
    let name = host_name();
    let hosts = read("/etc/hosts");
    let lines = hosts.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| word == name).then_some(address)
    });
    let listed: Vec<IpAddr> = lines.collect();
    for (grain, interfaces) in [
        ("fqdn_ip4", "ip4_interfaces"),
        ("fqdn_ip6", "ip6_interfaces"),
    ] {
        let is_wanted = |address: &&IpAddr| address.is_ipv4() == (grain == "fqdn_ip4");
        let wanted: Vec<String> = listed
            .iter()
            .filter(is_wanted)
            .map(ToString::to_string)
            .collect();
        let value = match (wanted.is_empty(), to_gateway) {
            (true, Some(interface)) => {
                let all = found.iter().find(|(known, _)| known == interfaces);
                let of_interface = all.and_then(|(_, all)| all.get(interface));
                of_interface.cloned().unwrap_or(Value::List(Vec::new()))
            }
            _ => Value::texts(wanted),
        };
        add(found, grain, value);
    }
}

/// Returns the default gateway in the kernel's table of routes of IPv4, and the interface that leads to it.
fn gateway4(routes: &str) -> Option<(Ipv4Addr, String)> {
    routes.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [interface, "00000000", gateway, ..] = fields[..] else {
            return None;
        };
        let gateway = u32::from_str_radix(gateway, 16)
            .ok()
            .filter(|bits| *bits != 0)?;
        // The kernel prints the bytes of the network as a number of this machine.
        let gateway = Ipv4Addr::from(gateway.to_ne_bytes());
        Some((gateway, interface.to_owned()))
    })
}

/// Returns the default gateway in the kernel's table of routes of IPv6.
fn gateway6(routes: &str) -> Option<Ipv6Addr> {
    let nothing = "0".repeat(32);
    routes.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [target, "00", _, _, gateway, ..] = fields[..] else {
            return None;
        };
        let gateway = u128::from_str_radix(gateway, 16).ok();
        let gateway = gateway.filter(|bits| *bits != 0 && target == nothing)?;
        Some(Ipv6Addr::from(gateway))
    })
}

/// Returns the servers that are asked for names, and how they are asked, as `resolv.conf` says.
fn name_servers(resolv_conf: &str) -> Value {
    let mut servers: Vec<IpAddr> = Vec::new();
    let (mut domain, mut search, mut sortlist, mut options) = ("", vec![], vec![], vec![]);
    for line in resolv_conf.lines() {
        let line = line.split(['#', ';']).next().unwrap_or_default();
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => {
                // The zone of a link-local address is not part of the address.
                let address = words.next().and_then(|word| word.split('%').next());
                servers.extend(address.and_then(|address| address.parse::<IpAddr>().ok()));
            }
            Some("domain") => domain = words.next().unwrap_or_default(),
            Some("search") => search = words.collect(),
            Some("sortlist") => sortlist = words.collect(),
            Some("options") => options.extend(words),
            _ => {}
        }
    }
    let some = |wanted: fn(&&IpAddr) -> bool| {
        Value::texts(servers.iter().filter(wanted).map(ToString::to_string))
    };
    Value::map([
        ("nameservers", some(|_| true)),
        ("ip4_nameservers", some(|address| address.is_ipv4())),
        ("ip6_nameservers", some(|address| address.is_ipv6())),
        ("domain", Value::from(domain)),
        ("search", Value::texts(search)),
        ("sortlist", Value::texts(sortlist)),
        ("options", Value::texts(options)),
    ])
}

type ByInterface = BTreeMap<String, Vec<String>>;

fn as_value(map: ByInterface) -> Value {
    Value::Map(
        map.into_iter()
            .map(|(name, texts)| (name, Value::texts(texts)))
            .collect(),
    )
}

/// Reads `/sys/class/net/*/address`.
pub(crate) fn hardware_addresses() -> BTreeMap<String, String> {
    let Ok(entries) = std::fs::read_dir("/sys/class/net") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let address = std::fs::read_to_string(entry.path().join("address")).ok()?;
            let address = address.trim();
            (!address.is_empty()).then(|| (name, address.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_are_found_in_the_tables_of_routes() {
        let routes = "Iface\tDestination\tGateway\tFlags\neth1\t000011AC\t00000000\t0001\n";
        assert_eq!(gateway4(routes), None);
        let gateway = u32::from_ne_bytes([192, 0, 2, 1]);
        let routes = format!("{routes}eth0\t00000000\t{gateway:08X}\t0003\t0\n");
        let found = Some(("192.0.2.1".parse().unwrap(), "eth0".to_owned()));
        assert_eq!(gateway4(&routes), found);
        let zeros = "0".repeat(32);
        let gateway = "fe800000000000000000000000000001";
        let routes = format!(
            "{zeros} 00 {zeros} 00 {zeros} ffffffff lo\n{zeros} 00 {zeros} 00 {gateway} 400 eth0\n"
        );
        assert_eq!(gateway6(&routes), Some("fe80::1".parse().unwrap()));
        assert_eq!(gateway6(""), None);
    }

    #[test]
    fn servers_of_names_are_told_from_comments() {
        let found = name_servers(
            "# nameserver 192.0.2.9\nnameserver 192.0.2.1 ; first\nnameserver fe80::1%eth0\nnameserver x\nsearch a.example b.example\noptions edns0\noptions trust-ad\n",
        );
        let texts = |name: &str| found.get(name).unwrap().clone();
        assert_eq!(texts("ip4_nameservers"), Value::texts(["192.0.2.1"]));
        assert_eq!(texts("ip6_nameservers"), Value::texts(["fe80::1"]));
        assert_eq!(texts("search"), Value::texts(["a.example", "b.example"]));
        assert_eq!(texts("options"), Value::texts(["edns0", "trust-ad"]));
    }
}
