//! The types of parameters take what they should, and never panic.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use saline_functions::{Mismatch, Selector};
use saline_messages::Jid;
use saline_targeting::{Glob, TargetKind};

/// Any value that an operator can pass.
fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![any::<String>(), "[0-9.eE+-]{0,24}", "[*?a-z.\\[{,]{0,9}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::UInt),
        any::<f64>().prop_map(Value::Float),
        text.prop_map(Value::Text),
        vec(any::<u8>(), 0..9).prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::List),
            vec((any::<String>(), inner), 0..5).prop_map(Value::Map),
        ]
    })
}

fn any_arguments() -> impl Strategy<Value = Arguments> {
    let name = prop_oneof![
        "first|type|half|names|more|who|greeting|password|host|port|test|path",
        any::<String>()
    ];
    let named = vec((name, any_value()), 0..4);
    (vec(any_value(), 0..5), named).prop_map(|(positional, named)| Arguments { positional, named })
}

fn taken<T: FromValue>(value: &Value) -> Result<T, Mismatch> {
    T::from_value(value.clone())
}

proptest! {
    #[test]
    fn no_type_panics(value in any_value()) {
        let _ = taken::<String>(&value);
        let _ = taken::<i64>(&value);
        let _ = taken::<u64>(&value);
        let _ = taken::<f64>(&value);
        let _ = taken::<bool>(&value);
        let _ = taken::<Duration>(&value);
        let _ = taken::<Mapping>(&value);
        let _ = taken::<Jid>(&value);
        let _ = taken::<Glob>(&value);
        let _ = taken::<Selector>(&value);
        let _ = taken::<TargetKind>(&value);
        let _ = taken::<Vec<Option<String>>>(&value);
        let _ = taken::<Secret<Vec<i64>>>(&value);
        prop_assert_eq!(taken::<Value>(&value), Ok(value));
    }

    #[test]
    fn no_binding_panics_and_errors_are_short(arguments in any_arguments()) {
        for (name, _) in registry().iter() {
            let fun = name.strip_prefix("place.").unwrap();
            if let Err(error @ Failure::Arguments(_)) = call(fun, arguments.clone()) {
                let told = error.to_string();
                let names: usize = arguments.named.iter().map(|(name, _)| name.len()).sum();
                // Escaped, a character of a value takes up to ten bytes.
                prop_assert!(told.len() < 5_000 + names, "{}", told);
                prop_assert!(told.contains("()") || told.contains("not valid"), "{}", told);
            }
        }
    }

    #[test]
    fn what_a_type_holds_comes_back(number in any::<i64>(), text in any::<String>(), list in vec(any::<u64>(), 0..5)) {
        prop_assert_eq!(taken(&Value::Int(number)), Ok(number));
        prop_assert_eq!(taken(&Value::from(text.as_str())), Ok(text));
        let values = list.iter().map(|number| Value::from(*number)).collect();
        prop_assert_eq!(taken(&Value::List(values)), Ok(list));
    }
}

#[test]
fn each_type_takes_what_it_says() {
    let seconds = |value: Value| taken::<Duration>(&value).ok();
    assert_eq!(seconds(" 1.5 ".into()), Some(Duration::from_millis(1_500)));
    assert_eq!(seconds(Value::UInt(3)), Some(Duration::from_secs(3)));
    for bad in [Value::Int(-1), f64::NAN.into(), 1e300.into(), "1 s".into()] {
        assert_eq!(seconds(bad), None);
    }
    assert_eq!(taken::<String>(&Value::Bool(true)), Ok("true".to_owned()));
    assert!(taken::<i64>(&Value::from("1")).is_err());
    assert!(taken::<u64>(&Value::Int(-1)).is_err());
    assert_eq!(taken(&Value::Null), Ok(None::<bool>));
    let mixed = Value::List(vec![Value::Int(1), "x".into()]);
    let mismatch = taken::<Vec<i64>>(&mixed).unwrap_err();
    assert_eq!(mismatch.expected, "a list, each element a whole number");
    assert_eq!(mismatch.found, "one with \"x\"");
    let kind = taken::<TargetKind>(&"colour".into()).unwrap_err();
    assert!(kind.expected.starts_with("one of glob, list, "), "{kind:?}");
    let jid = Jid::parse("20261121091409931549").unwrap();
    assert_eq!(taken(&Value::from(jid.as_str())), Ok(jid));
}
