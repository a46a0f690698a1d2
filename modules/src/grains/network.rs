//! Interfaces and addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use saline_data::Value;

use super::{Entries, add};

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
