//! The grains that a minion reports, and targets that look at them.

use saline_data::{Packed, Value};
use saline_messages::MinionId;
use saline_targeting::{
    Candidate, Grains as _, Inclusion, MAX_GRAINS, PackedGrains, Target, TargetKind,
};

/// Targets that look at every kind of value.
const TARGETS: [(TargetKind, &str); 8] = [
    (TargetKind::Grain, "os:*"),
    (TargetKind::Grain, "*:*:a*"),
    (TargetKind::Grain, "a:0:b:*:c?"),
    (TargetKind::Grain, "*:*:*:*:*:*:*:*:x"),
    (TargetKind::GrainPcre, "a:(b|c)+$"),
    (TargetKind::GrainPcre, "a:b:(?!c).*d"),
    (TargetKind::IpCidr, "10.0.0.0/8"),
    (TargetKind::Compound, "G@os:a and not ( S@::/0 or P@a:b )"),
];

/// The bytes are the packed grains.
pub(crate) fn grains(bytes: &[u8]) {
    let packed = Packed::from_bytes(bytes.to_vec());
    let Ok(grains) = PackedGrains::read(&packed) else {
        return;
    };
    assert!(bytes.len() <= MAX_GRAINS);
    let Value::Map(mut entries) = packed.unpack().expect("they were read") else {
        panic!("grains are a mapping");
    };
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let plain = Value::Map(entries);
    // Packed, since a float may be none of the numbers.
    assert_eq!(Packed::pack(&grains.all()), Packed::pack(&plain));
    let Ok(id) = MinionId::parse("m1") else {
        return;
    };
    for (kind, expression) in TARGETS {
        let target = Target {
            kind,
            expression: expression.to_owned(),
        };
        let target = target.compile().expect("a target that is well formed");
        let of_packed = target.decide(Candidate {
            id: id.as_str(),
            grains: Some(&grains),
            pillar: None,
        });
        let of_plain = target.decide(Candidate {
            id: id.as_str(),
            grains: Some(&plain),
            pillar: None,
        });
        assert_eq!(of_packed, of_plain, "{expression}");
        assert_ne!(of_packed, Ok(Inclusion::Unknown), "{expression}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let nested = (0..10).fold(Value::from("x"), |inner, number| match number % 2 {
        0 => Value::map([("a", inner.clone()), ("*", inner)]),
        _ => Value::List(vec![inner, Value::Null]),
    });
    let all = [
        Value::map([("os", Value::from("Debian"))]),
        Value::map([("os", Value::from("b")), ("a", Value::texts(["b", "cd"]))]),
        Value::map([
            ("ipv4", Value::texts(["10.1.2.3", "x"])),
            ("ipv6", Value::from("::1")),
        ]),
        Value::map([("a", nested)]),
        Value::map([("a", Value::Bytes(vec![255])), ("b", Value::Float(1.0))]),
        Value::map([("a", Value::Null), ("a", Value::Null)]),
        Value::Null,
    ];
    let packed = all
        .iter()
        .map(|value| Packed::pack(value).as_bytes().to_vec());
    packed.collect()
}
