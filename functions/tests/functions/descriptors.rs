//! What a descriptor tells: signature, documentation, flags.

use super::*;
use saline_functions::{Function, RunsIn, Selector};
use std::borrow::Cow;

#[test]
fn a_signature_has_the_shape_of_salts_argspec() {
    let registry = registry();
    let argspec = |fun: &str| registry.get(fun).unwrap().argspec();
    let expected = Value::map([
        ("args", Value::texts(["who", "greeting"])),
        ("defaults", Value::texts(["Hi"])),
        ("varargs", Value::Null),
        ("kwargs", Value::Null),
    ]);
    assert_eq!(argspec("place.greet"), expected);
    let expected = Value::map([
        ("args", Value::texts(["first", "type", "half"])),
        ("defaults", Value::List(vec![Value::Int(-1), Value::Null])),
        ("varargs", Value::Bool(true)),
        ("kwargs", Value::Bool(true)),
    ]);
    assert_eq!(argspec("place.everything"), expected);
    let shared = argspec("place.connect");
    assert_eq!(shared.get("args"), Some(&Value::texts(["host", "port"])));
}

#[test]
fn the_comment_is_the_documentation() {
    let expected = "\n    Greets.\n\n    greeting\n        What is said.\n\n    CLI Example:\n\n        saline '*' \
                    place.greet Ann greeting=Hello\n";
    assert_eq!(GREET.indented_documentation(), expected);
    let selected = |texts: &[&str]| -> Vec<String> {
        let wanted = texts
            .iter()
            .map(|text| Selector::from_value((*text).into()));
        let wanted: Vec<Selector> = wanted.map(Result::unwrap).collect();
        match registry().documentation(&wanted) {
            Value::Map(entries) => entries.into_iter().map(|(name, _)| name).collect(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(selected(&[]).len(), 10);
    assert_eq!(selected(&["place"]).len(), 10);
    assert_eq!(selected(&["place."]).len(), 10);
    assert_eq!(selected(&["pla"]), Vec::<String>::new());
    assert_eq!(selected(&["*.[fl]*"]), ["place.fail", "place.login"]);
    let both = ["place.greet", "place.welcome"];
    assert_eq!(selected(&both), both);
    assert!(Selector::from_value("[".into()).is_err());
}

#[test]
fn a_function_says_what_it_does() {
    assert!((!GREET.blocks, !GREET.changes) == (true, true));
    assert!(FAIL.blocks && REMOVE.changes);
    assert!((EVERYTHING.acts_once, FAIL.acts_once) == (true, false));
    let runs_in = (REMOVE.runs_in, FAIL.runs_in);
    assert_eq!(runs_in, (RunsIn::OwnProcess, RunsIn::AnyProcess));
    let time = (EVERYTHING.time, FAIL.time);
    assert_eq!(time, (Some(Duration::from_secs(7)), None));
}

#[test]
fn a_function_may_own_its_strings() {
    let owned: Function<Place<'_>> = Function {
        name: Cow::Owned("hello".to_owned()),
        parameters: Cow::Owned(vec![GREET.parameters[0].clone()]),
        ..GREET.clone()
    };
    let registry = registry().with("place", [&owned]);
    let missing = registry.get("place.hello").unwrap();
    let missing = missing.bind(Arguments::default()).unwrap_err().to_string();
    assert!(missing.starts_with("hello() missing 1 "), "{missing}");
}
