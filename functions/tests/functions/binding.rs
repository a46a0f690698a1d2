//! The binding of arguments, and its errors.

use super::*;

fn text(fun: &str, positional: &[&str], named: &[(&str, Value)]) -> String {
    call(fun, arguments(positional, named))
        .unwrap_err()
        .to_string()
}

#[test]
fn arguments_are_bound_by_place_and_by_name() {
    let greeted = |positional: &[&str], named: &[(&str, Value)]| {
        call("greet", arguments(positional, named)).unwrap()
    };
    assert_eq!(greeted(&["Ann"], &[]), "Hi Ann from here".into());
    assert_eq!(
        greeted(&["Ann", "Hello"], &[]),
        "Hello Ann from here".into()
    );
    let named = [("greeting", "Hey".into()), ("who", Value::Int(7))];
    assert_eq!(greeted(&[], &named), "Hey 7 from here".into());
    // None leaves a parameter out that may be left out.
    let none = [("greeting", Value::Null)];
    assert_eq!(greeted(&["Ann"], &none), "Hi Ann from here".into());
    let shared = call("connect", arguments(&["a"], &[])).unwrap();
    assert_eq!(shared, "a:22".into());
    let all = call(
        "everything",
        arguments(
            &["1", "x"],
            &[("half", Value::Float(0.5)), ("b", Value::Int(1))],
        ),
    );
    // `x` is no whole number.
    assert!(all.is_err());
    let all = Arguments {
        positional: vec![
            Value::Null,
            Value::Int(4),
            Value::Int(3),
            "x".into(),
            true.into(),
        ],
        named: vec![
            ("b".to_owned(), Value::Int(1)),
            ("between".to_owned(), "+".into()),
        ],
    };
    let expected = vec![
        Value::Null,
        Value::Int(4),
        Value::Float(3.0),
        "x+true".into(),
        Value::map([("b", Value::Int(1))]),
    ];
    assert_eq!(call("everything", all), Ok(Value::List(expected)));
    let few = call("everything", arguments(&["1"], &[]));
    let expected = vec![
        "1".into(),
        Value::Int(-1),
        Value::Null,
        "".into(),
        Value::Map(Vec::new()),
    ];
    assert_eq!(few, Ok(Value::List(expected)));
}

#[test]
fn errors_name_function_parameter_and_value() {
    for (told, expected) in [
        (
            text("greet", &[], &[]),
            "greet() missing 1 required positional argument: 'who'",
        ),
        (
            text("login", &[], &[]),
            "login() missing 2 required positional arguments: 'user' and 'password'",
        ),
        (
            text("fail", &["1", "2"], &[]),
            "fail() takes 1 positional argument but 2 were given",
        ),
        (
            text("greet", &["1", "2", "3"], &[]),
            "greet() takes from 1 to 2 positional arguments but 3 were given",
        ),
        (
            text("optional", &["1", "2"], &[]),
            "optional() takes from 0 to 1 positional arguments but 2 were given",
        ),
        (
            text("nothing", &["1"], &[]),
            "nothing() takes 0 positional arguments but 1 was given",
        ),
        (
            text("greet", &["a"], &[("who", "b".into())]),
            "greet() got multiple values for argument 'who'",
        ),
        (
            text("fail", &["soon"], &[]),
            "fail() expects a number of seconds as 'length', not \"soon\"",
        ),
        (
            text("everything", &["x"], &[("type", Value::Bool(true))]),
            "everything() expects a whole number as 'type', not True",
        ),
        (
            text("greet", &["a"], &[("greting", "b".into())]),
            "The following keyword arguments are not valid: greting=\"b\". Did you mean 'greeting'?",
        ),
        (
            text("greet", &["a"], &[("mood", "b".into())]),
            "The following keyword arguments are not valid: mood=\"b\". The parameters are who, greeting",
        ),
        (
            text("login", &["a"], &[("pasword", "b".into())]),
            "The following keyword arguments are not valid: pasword. Did you mean 'password'?",
        ),
        (
            text("login", &[], &[("mood", "b".into())]),
            "The following keyword arguments are not valid: mood. The parameters are user, password, pin",
        ),
        (
            text("greet", &[], &[("A", "b c".into())]),
            "The following keyword arguments are not valid: A=\"b c\". If this is the 'who' itself, write who='A=b c'",
        ),
        (text("fail", &["3"], &[]), "3 s"),
    ] {
        assert_eq!(told, expected);
    }
    let args = Arguments {
        positional: vec![
            Value::Null,
            Value::Int(1),
            1.0.into(),
            Value::List(Vec::new()),
        ],
        named: Vec::new(),
    };
    assert_eq!(
        call("everything", args).unwrap_err().to_string(),
        "everything() expects a text as 'names', not a list"
    );
    // A function with an alias is named by it.
    let registry = registry();
    let welcome = registry.get("place.welcome").unwrap();
    let missing = welcome.bind(Arguments::default()).unwrap_err();
    assert!(missing.to_string().starts_with("welcome() missing 1 "));
}

#[test]
fn a_secret_is_shown_by_no_error_and_no_formatting() {
    let right = arguments(&["ann", "p4ss"], &[]);
    assert_eq!(call("login", right.clone()), Ok(Value::Bool(true)));
    let bound = format!("{:?}", LOGIN.bind(right).unwrap());
    let list = Value::texts(["p4ss"]);
    let told = [
        bound,
        text("login", &["ann"], &[("password", list)]),
        text("login", &["ann", "x"], &[("pin", "p4ss".into())]),
        text("login", &["ann", "x"], &[("pasword", "p4ss".into())]),
        format!("{} {0:?}", Secret::new("p4ss")),
    ];
    for told in &told {
        assert!(!told.contains("p4ss"), "{told}");
    }
    assert!(told[1].ends_with("expects a text as 'password', not what was given"));
    let secrets: Vec<bool> = LOGIN.parameters.iter().map(|one| one.secret).collect();
    assert_eq!(secrets, [false, true, true]);
}

#[test]
fn the_arguments_of_secret_parameters_are_taken_out_wherever_they_stand() {
    let taken = |fun: &str, positional: &[&str], named: &[(&str, Value)]| {
        let registry = registry();
        let mut left = arguments(positional, named);
        let secret = take_secrets(&registry.get(fun).unwrap().parameters, &mut left);
        let places: Vec<String> = secret.iter().map(|(place, _)| place.to_string()).collect();
        let of_secrets = secret
            .iter()
            .all(|(_, value)| *value == Value::from("p4ss"));
        assert!(of_secrets, "{secret:?}");
        let all = format!("{left:?}");
        assert!(!all.contains("p4ss"), "{all}");
        places.join(" ")
    };
    let p4ss = || Value::from("p4ss");
    let by_name = [("user", Value::from("ann")), ("password", p4ss())];
    assert_eq!(taken("place.login", &[], &by_name), "'password'");
    assert_eq!(taken("place.login", &["ann", "p4ss", "p4ss"], &[]), "2 3");
    let both = [("pin", p4ss()), ("pasword", p4ss())];
    assert_eq!(
        taken("place.login", &["ann", "p4ss", "p4ss", "p4ss"], &both),
        "2 3 4 'pin' 'pasword'"
    );
    assert_eq!(taken("place.sign", &["ann", "p4ss", "p4ss"], &[]), "2 3");
    let plain = [("x", Value::from("y"))];
    assert_eq!(taken("place.everything", &["a", "1", "2", "b"], &plain), "");
}

#[test]
fn a_marked_argument_is_shown_by_no_error() {
    let registry = registry();
    let hidden = ["pin", "user", "usr"].map(ArgumentPlace::named);
    let error = |fun: &str, named: &[(&str, Value)]| {
        let function = registry.get(fun).unwrap();
        let bound = function.bind_hiding(arguments(&[], named), &hidden);
        let called = bound.map_err(Failure::from);
        let called = called.and_then(|bound| (function.code)(&Place { name: "here" }, bound));
        called.unwrap_err().to_string()
    };
    let list = Value::List(vec![Value::from("p4ss")]);
    let wrong = [("user", list), ("password", Value::from("x"))];
    assert_eq!(
        error("place.login", &wrong),
        "login() expects a text as 'user', not what was given"
    );
    let list = Arguments {
        positional: vec![Value::List(vec![Value::from("p4ss")])],
        named: Vec::new(),
    };
    let bound = GREET.bind_hiding(list, &[ArgumentPlace::Positional(0)]);
    let failure = (GREET.code)(&Place { name: "here" }, bound.unwrap()).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "greet() expects a text as 'who', not what was given"
    );
    let misspelt = error("place.greet", &[("usr", Value::from("p4ss"))]);
    assert!(
        misspelt.contains("usr") && !misspelt.contains("p4ss"),
        "{misspelt}"
    );
}
