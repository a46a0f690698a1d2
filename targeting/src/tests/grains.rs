//! Targets over grains and addresses, and what a minion may report.

use super::*;

#[test]
fn values_that_are_matched_by_going_back_are_bounded() {
    let many = |count| {
        let value = Value::Map(vec![("l".to_owned(), Value::List(vec!["a".into(); count]))]);
        PackedGrains::read(&Packed::pack(&value)).unwrap()
    };
    let decide = |expression: &str, count| {
        let compiled = target(TargetKind::GrainPcre, expression).compile().unwrap();
        let grains = many(count);
        let grains = Some(&grains as &dyn Grains);
        let id = "m1";
        compiled.decide(Candidate {
            id,
            grains,
            pillar: None,
        })
    };
    assert_eq!(decide("l:(?!a)b", 1_000), Ok(Inclusion::Excluded));
    assert_eq!(decide("l:(?!a)b", 1_001), Err(TooManySteps));
    assert_eq!(decide("l:b", 10_000), Ok(Inclusion::Excluded));
}

#[test]
fn grains_match_as_salts_do() {
    for (expression, expected) in [
        ("os:Debian", true),
        ("os:debian", true),
        ("os:DEB*", true),
        ("os:*", true),
        ("os:ebian", false),
        ("OS:Debian", false),
        ("nosuch:*", false),
        ("num_cpus:4", true),
        ("num_cpus:[1-4]", true),
        ("load:1.0", true),
        ("efi:true", true),
        ("nothing:none", true),
        ("empty:*", false),
        ("roles:web", true),
        ("roles:c*e", true),
        ("roles:db", false),
        ("roles:0:web", true),
        ("roles:1:web", false),
        ("ip_interfaces:eth0", true),
        ("ip_interfaces:eth?", false),
        ("ip_interfaces:eth0:10.*", true),
        ("ip_interfaces:eth0:fe80::1", true),
        ("ip_interfaces:lo:10.*", false),
        ("ip_interfaces:*:10.*", true),
        ("ip_interfaces:*", true),
        ("ipv6:2001:db8::*", true),
        ("disks:name:sdb", true),
        ("disks:1:name:sda", false),
        ("disks:size", true),
        ("disks:name:sdc", false),
        ("*:eth0:10.*", true),
        ("*:eth1:10.*", false),
        ("osfullname:debian gnu/*", true),
    ] {
        assert_eq!(
            includes(TargetKind::Grain, expression),
            expected,
            "{expression}"
        );
    }
    for (expression, expected) in [
        ("os:deb", true),
        ("os:(Red|Deb)", true),
        ("os:ian", false),
        ("roles:(?:web|db)$", true),
        ("os:(?!Red)", true),
        ("os:(?!Deb)", false),
        (r"ip_interfaces:eth0:10\.(1|2)\.", true),
    ] {
        assert_eq!(
            includes(TargetKind::GrainPcre, expression),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn another_delimiter() {
    let matching = Target::with_delimiter(TargetKind::Grain, "ip_interfaces|eth0|fe80::1", '|');
    assert_eq!(matching.kind, TargetKind::Compound);
    assert!(includes(matching.kind, &matching.expression));
    for delimiter in ['@', ' ', '"', '(', 'é'] {
        let expression = format!("osfullname{delimiter}Debian GNU*");
        let target = Target::with_delimiter(TargetKind::Grain, expression, delimiter);
        assert!(includes(target.kind, &target.expression), "{target:?}");
    }
}

#[test]
fn addresses_and_networks() {
    for (expression, expected) in [
        ("10.1.2.3", true),
        ("10.1.2.4", false),
        ("10.0.0.0/8", true),
        ("10.1.0.0/255.255.0.0", true),
        ("192.168.0.0/16", false),
        ("2001:db8::7", true),
        ("2001:0db8:0::/32", true),
        ("2001:db9::/32", false),
    ] {
        assert_eq!(
            includes(TargetKind::IpCidr, expression),
            expected,
            "{expression}"
        );
    }
    let refused = |text| target(TargetKind::IpCidr, text).compile().unwrap_err();
    assert_eq!(
        refused("10.1.2.3/8").to_string(),
        "the target is malformed: 10.1.2.3/8 is an address in the network 10.0.0.0/8: write one or the other"
    );
    assert!(matches!(
        refused("10.1.2").problem,
        TargetProblem::Network(_)
    ));
}

#[test]
fn grains_of_a_minion_are_bounded() {
    let read = |value: &Value| PackedGrains::read(&Packed::pack(value));
    assert!(
        read(&Value::map([(
            "a",
            Value::from("x".repeat(MAX_GRAINS - 100))
        )]))
        .is_ok()
    );
    let large = Value::map([("a", Value::from("x".repeat(MAX_GRAINS)))]);
    assert!(matches!(read(&large), Err(GrainsError::TooLarge(_))));
    let many = Value::map([("a", Value::List(vec![Value::Null; 20_000]))]);
    assert!(matches!(read(&many), Err(GrainsError::Unpack(_))));
    let deep = (0..20).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    assert!(matches!(
        read(&Value::map([("a", deep)])),
        Err(GrainsError::Unpack(_))
    ));
    assert!(matches!(read(&Value::Null), Err(GrainsError::NoMapping)));
    let twice = Value::map([("a", Value::Null), ("a", Value::Null)]);
    assert!(matches!(read(&twice), Err(GrainsError::NoMapping)));
    let read = read(&grains()).unwrap();
    assert_eq!(read.grain("os").unwrap().as_str(), Some("Debian"));
    assert!(read.grain("o").is_none());
    let Value::Map(entries) = read.all().into_owned() else {
        panic!("a mapping");
    };
    assert_eq!(entries.len(), 12);
}
