use proptest::prelude::*;
use saline_data::Value;
use zbus::Variant;

use super::properties::to_value;
use super::unit_name::{UnitName, listed};

#[test]
fn a_name_without_a_suffix_is_that_of_a_service() {
    for (text, full) in [
        ("nginx", "nginx.service"),
        ("nginx.service", "nginx.service"),
        ("php8.2-fpm", "php8.2-fpm.service"),
        ("logrotate.timer", "logrotate.timer"),
        ("getty@tty1", "getty@tty1.service"),
        ("dev-sda\\x2d1.swap", "dev-sda\\x2d1.swap"),
    ] {
        assert_eq!(UnitName::parse(text).unwrap().as_str(), full);
    }
    for bad in [
        "",
        "-f",
        "--all",
        ".",
        "a b",
        "a/b",
        "../x",
        "nginx*",
        "a\n",
        "@.service",
        "é",
    ] {
        assert!(UnitName::parse(bad).is_none(), "{bad}");
    }
    assert!(UnitName::parse(&"x".repeat(248)).is_none());
    assert_eq!((listed("a.service"), listed("a.timer")), ("a", "a.timer"));
}

#[test]
fn values_of_d_bus_keep_their_types() {
    let nested = Variant::from(vec![("a", true, u64::MAX)]);
    assert_eq!(
        to_value(&nested),
        Value::List(vec![Value::List(vec![
            Value::from("a"),
            Value::Bool(true),
            Value::UInt(u64::MAX)
        ])])
    );
    let dict = std::collections::HashMap::from([("k", Variant::from(-1_i16))]);
    assert_eq!(
        to_value(&Variant::from(dict)),
        Value::map([("k", Value::Int(-1))])
    );
}

proptest! {
    #[test]
    fn no_accepted_name_is_an_option_or_a_path(text in ".{0,20}") {
        if let Some(name) = UnitName::parse(&text) {
            prop_assert!(!name.as_str().starts_with('-') && !name.as_str().contains(['/', ' ', '\n', '*']));
        }
    }
}
