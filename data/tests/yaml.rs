//! YAML in files: what is taken, what is refused and where, and that nothing makes it panic or grow.

use insta::assert_snapshot;
use proptest::prelude::*;
use saline_data::Value;
use saline_data::yaml::{Content, MAX_NODES, parse, parse_nodes};

fn error(text: &str) -> String {
    match parse(text) {
        Ok(value) => format!("taken: {value:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_document_is_read() {
    let text = "# comment\nname: value\nlist:\n  - 1\n  - yes\nblock: |\n  two\n  lines\nempty:\n";
    let value = Value::map([
        ("name", Value::from("value")),
        ("list", Value::List(vec![Value::Int(1), true.into()])),
        ("block", "two\nlines\n".into()),
        ("empty", Value::Null),
    ]);
    assert_eq!(parse(text).unwrap(), value);
    for empty in ["", "\n", "# only a comment\n", "---\n", "\u{feff}"] {
        assert_eq!(parse(empty).unwrap(), Value::Null, "{empty:?}");
    }
}

#[test]
fn keys_and_values_know_where_they_stand() {
    let node = parse_nodes("a: 1\n\n  # x\nbé:   [x,\n  y]\n")
        .unwrap()
        .unwrap();
    let Content::Map(entries) = node.content else {
        panic!("a mapping");
    };
    let places: Vec<_> = entries
        .iter()
        .map(|(key, value)| {
            let (k, v) = (key.position, value.position);
            (key.name.as_str(), (k.line, k.column), (v.line, v.column))
        })
        .collect();
    assert_eq!(places, [("a", (1, 1), (1, 4)), ("bé", (4, 1), (4, 7))]);
    let Content::List(items) = &entries[1].1.content else {
        panic!("a list");
    };
    assert_eq!((items[1].position.line, items[1].position.column), (5, 3));
}

#[test]
fn merge_keys_give_way_to_the_mappings_own() {
    let text = "base: &base {a: 1, b: 1}\nother: {<<: [{c: 3}, *base], b: 2}\n";
    let value = parse(text).unwrap();
    let other = value.get("other").unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| other.get(name).and_then(Value::as_i64));
    assert_eq!((a, b, c), (Some(1), Some(2), Some(3)));
    // What is merged comes first, as in Salt.
    let Value::Map(entries) = other else {
        panic!("a mapping");
    };
    let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["c", "a", "b"]);
}

#[test]
fn tags_that_salt_reads_as_text_are_text() {
    let value = parse("[!!timestamp 2001-12-14, !!python/unicode '1']").unwrap();
    assert_eq!(value, Value::texts(["2001-12-14", "1"]));
}

#[test]
fn what_is_refused_says_where() {
    assert_snapshot!(error("a: 1\nb: 2\na: 3\n"), @r#"line 3, column 1: "a" occurs twice, first in line 1"#);
    assert_snapshot!(error("a: [1, 2\n"), @"line 1, column 4: unclosed bracket '['");
    assert_snapshot!(error("a: b: c\n"), @"line 1, column 5: mapping values are not allowed in this context (text with a colon before a space needs quotes)");
    assert_snapshot!(error("a: 1\n\tb: 2\n"), @"line 1, column 4: while scanning a plain scalar, found a tab");
    assert_snapshot!(error("a: \"open\n"), @"line 2, column 1: invalid indentation in multiline quoted scalar");
    assert_snapshot!(error("a: *nothing\n"), @"line 1, column 4: while parsing node, found unknown anchor");
    assert_snapshot!(error("a: &x [*x]\n"), @"line 1, column 8: an alias is inside its own anchor");
    assert_snapshot!(error("a: !!python/object:os.system x\n"), @"line 1, column 30: the tag is not known: put a text that begins with ! between quotes");
    assert_snapshot!(error("a: !!int x\n"), @"line 1, column 10: the value does not fit its tag !!int");
    assert_snapshot!(error("a: 1\n---\nb: 2\n"), @"line 2, column 1: expected one document, and here a second begins");
    assert_snapshot!(error("? [a]\n: b\n"), @"line 1, column 3: a list or a mapping cannot be a key");
    assert_snapshot!(error("a: {<<: 1}\n"), @"line 1, column 9: `<<` takes a mapping or a list of mappings");
    assert_snapshot!(error(&("[".repeat(70) + &"]".repeat(70))), @"line 1, column 66: lists and mappings nest deeper than 64");
}

#[test]
fn a_billion_laughs_are_refused() {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for i in 1..20 {
        let before = format!("*a{}", i - 1);
        text += &format!("a{i}: &a{i} [{}]\n", [before.as_str(); 10].join(", "));
    }
    let error = parse(&text).unwrap_err();
    assert!(error.message.contains(&MAX_NODES.to_string()), "{error}");
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(1 << 20),
        ["*a"; 40].join(", ")
    );
    assert!(parse(&long).is_err());
    // Each line nests the one before: deep without brackets.
    let mut text = "a0: &a0 [x]\n".to_owned();
    for i in 1..200 {
        text += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
    }
    assert!(parse(&text).unwrap_err().message.contains("nest deeper"));
}

fn yaml_like() -> impl Strategy<Value = String> {
    let tokens = prop::sample::select(vec![
        "a",
        "1",
        "key: ",
        "- ",
        "? ",
        ": ",
        "\n",
        "\n  ",
        "\n    ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "\"",
        "'",
        "# ",
        "&a ",
        "*a",
        "!!str ",
        "!x ",
        "|\n",
        ">-\n",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "<<: ",
        "\t",
        "\r\n",
        "é",
        "\0",
        "\\",
    ]);
    prop::collection::vec(tokens, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_text_is_read_or_refused_in_one_line(text in prop_oneof!["(?s).*", yaml_like()]) {
        if let Err(error) = parse(&text) {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
            prop_assert!(error.line >= 1 && error.column >= 1);
        }
    }
}
