//! What targets mean, and that every expression is read or refused within bounds. Here is what the tests share.

mod assignments;
mod compound;
mod grains;
mod ids;
mod nodegroups;
mod pillar;
mod refusals;
mod written;

use super::*;
use saline_data::{Packed, Value};

fn target(kind: TargetKind, expression: &str) -> Target {
    Target {
        kind,
        expression: expression.into(),
    }
}

fn matches(kind: TargetKind, expression: &str, name: &str) -> bool {
    let compiled = target(kind, expression).compile().unwrap();
    let candidate = Candidate {
        id: name,
        grains: None,
        pillar: None,
    };
    compiled.decide(candidate) == Ok(Inclusion::Included)
}

fn grains() -> Value {
    Value::map([
        ("os", Value::from("Debian")),
        ("osfullname", Value::from("Debian GNU/Linux")),
        ("num_cpus", Value::from(4_i64)),
        ("load", Value::from(1.0)),
        ("efi", Value::from(true)),
        ("nothing", Value::Null),
        ("empty", Value::map::<&str>([])),
        ("roles", Value::texts(["Web", "cache"])),
        ("ipv4", Value::texts(["127.0.0.1", "10.1.2.3"])),
        ("ipv6", Value::texts(["::1", "2001:db8::7", "no address"])),
        (
            "ip_interfaces",
            Value::map([
                ("eth0", Value::texts(["10.1.2.3", "fe80::1"])),
                ("lo", Value::texts(["127.0.0.1"])),
            ]),
        ),
        (
            "disks",
            Value::List(vec![
                Value::map([("name", Value::from("sda")), ("size", Value::from(10_i64))]),
                Value::map([("name", Value::from("sdb"))]),
            ]),
        ),
    ])
}

fn decide(kind: TargetKind, expression: &str, grains: Option<&dyn Grains>) -> Inclusion {
    let compiled = target(kind, expression).compile().unwrap();
    let id = "web1";
    compiled
        .decide(Candidate {
            id,
            grains,
            pillar: None,
        })
        .unwrap()
}

/// Whether the target includes `web1` with [`grains`], which it must say of the packed grains as well.
fn includes(kind: TargetKind, expression: &str) -> bool {
    let value = grains();
    let packed = PackedGrains::read(&Packed::pack(&value)).unwrap();
    let decided = decide(kind, expression, Some(&value));
    assert_eq!(decided, decide(kind, expression, Some(&packed)));
    decided == Inclusion::Included
}
