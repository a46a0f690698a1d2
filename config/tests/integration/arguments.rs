//! Words of a command line. What Salt 3008 makes of each was asked of its own `yamlify_arg`; where
//! Saline differs, the table says why.

use proptest::prelude::*;
use saline_config::{parse_argument, parse_arguments, parse_call};
use saline_data::{MAX_DEPTH, Value};

fn text(text: &str) -> Value {
    Value::from(text)
}

#[test]
fn words_that_stay_text() {
    for word in [
        // Nothing, blank, documents without content.
        "",
        " ",
        "---",
        "...",
        "\t1",
        "1\n",
        "{a: 1}\r",
        // Mappings and lists without their brackets.
        "foo:",
        "foo: bar",
        "a: b: c",
        "- a",
        "- - a",
        "-",
        "?",
        "? a",
        ": a",
        // Comments.
        "#",
        "# x",
        "a # b",
        "a#b",
        "a:  #",
        "\"a # b\"",
        // Dates, times, almost numbers.
        "2026-07-21",
        "2026-07-21 10:11:12",
        "2026-07-21T10:11:12Z",
        "1_000",
        "_",
        "1.2.3",
        "1e3",
        "1.5e3",
        "-.5",
        "0899",
        "0o17",
        "0b",
        "0x",
        "0X1F",
        "1,000",
        "1 2",
        "+",
        ".",
        "..",
        "1.5.",
        "-.nan",
        "1.e",
        "e1",
        ".e1",
        "0b12",
        "0xg",
        // Not YAML, or YAML that means something else.
        "[1",
        "{a",
        "]",
        "}",
        "a]",
        "\"open",
        "'open",
        "'a' b",
        "*",
        "*a",
        "%x",
        "@x",
        "`x",
        "|",
        ">",
        ">-",
        "!",
        "!foo x",
        "!!binary aGk=",
        "!!int x",
        "!!python/object:os.system x",
        "&",
        "&a",
        "{a: 1, a: 2}",
        "[*x]",
        "{[a]: 1}",
        "{{a: 1}: 2}",
        "[1] [2]",
        "--- 1\n--- 2",
        // Ordinary words.
        "tRue",
        "none",
        "y",
        "n",
        "a=b",
        "=",
        "<<",
        "a:b",
        "::",
        "http://x/y?z=1",
        "C:\\x",
        "-t",
        "--flag=1",
        "a, b",
        "$(ls)",
        "a && b",
        "a | b",
        "*.conf",
        "é",
        "echo 'a b'",
        "0.1.0",
    ] {
        assert_eq!(parse_argument(word), text(word), "{word:?}");
    }
}

#[test]
fn words_that_become_something_else_as_in_salt() {
    for (word, value) in [
        ("1", Value::Int(1)),
        (" 1 ", Value::Int(1)),
        ("-1", Value::Int(-1)),
        ("+1", Value::Int(1)),
        ("0", Value::Int(0)),
        ("-0", Value::Int(0)),
        ("00", Value::Int(0)),
        ("0644", Value::Int(644)),
        ("-0644", Value::Int(-420)),
        ("0b101", Value::Int(5)),
        ("0x1F", Value::Int(31)),
        ("-0x10", Value::Int(-16)),
        ("9223372036854775807", Value::Int(i64::MAX)),
        ("-9223372036854775808", Value::Int(i64::MIN)),
        ("9223372036854775808", Value::UInt(1 << 63)),
        ("18446744073709551615", Value::UInt(u64::MAX)),
        ("1.5", Value::Float(1.5)),
        ("+1.5", Value::Float(1.5)),
        ("-1.5", Value::Float(-1.5)),
        ("1.", Value::Float(1.0)),
        (".5", Value::Float(0.5)),
        ("01.5", Value::Float(1.5)),
        ("1.5e+3", Value::Float(1500.0)),
        ("1.5E-3", Value::Float(0.0015)),
        (".inf", Value::Float(f64::INFINITY)),
        ("-.inf", Value::Float(f64::NEG_INFINITY)),
        ("true", Value::Bool(true)),
        ("True", Value::Bool(true)),
        ("yes", Value::Bool(true)),
        ("on", Value::Bool(true)),
        ("FALSE", Value::Bool(false)),
        ("no", Value::Bool(false)),
        ("Off", Value::Bool(false)),
        ("None", Value::Null),
        ("null", Value::Null),
        ("~", Value::Null),
        ("'123'", text("123")),
        ("\"123\"", text("123")),
        ("\"a\\nb\"", text("a\nb")),
        ("'it''s'", text("it's")),
        ("''", text("")),
        ("\"\"", text("")),
        ("  a  ", text("a")),
        ("!!str 1", text("1")),
        ("! a", text("a")),
        ("!!int '5'", Value::Int(5)),
        ("!!float 5", Value::Float(5.0)),
        ("[]", Value::List(vec![])),
        ("{}", Value::Map(vec![])),
        (
            "[1, yes, 'x', ~]",
            Value::List(vec![Value::Int(1), true.into(), "x".into(), Value::Null]),
        ),
        (
            "[1, 2] # x",
            Value::List(vec![Value::Int(1), Value::Int(2)]),
        ),
        ("[2026-01-01]", Value::texts(["2026-01-01"])),
        (
            "[&x 1, *x]",
            Value::List(vec![Value::Int(1), Value::Int(1)]),
        ),
        ("[a: b]", Value::List(vec![Value::map([("a", text("b"))])])),
        ("{a: 1}", Value::map([("a", Value::Int(1))])),
        ("{\"a\":1}", Value::map([("a", Value::Int(1))])),
        ("{a}", Value::map([("a", Value::Null)])),
        ("{a: '#'}", Value::map([("a", text("#"))])),
        ("{1: a}", Value::map([("1", text("a"))])),
        (
            "{<<: {a: 1, b: 1}, b: 2}",
            Value::map([("a", Value::Int(1)), ("b", Value::Int(2))]),
        ),
    ] {
        assert_eq!(parse_argument(word), value, "{word:?}");
    }
    assert!(matches!(parse_argument(".nan"), Value::Float(n) if n.is_nan()));
}

#[test]
fn words_that_salt_changes_and_saline_keeps() {
    for word in [
        // 750 and 5400 in Salt.
        "12:30",
        "1:30:00",
        // -1000, 1.51 and 11 in Salt, which keeps 1_000.
        "-1_000",
        "1.5_1",
        "0x_b",
        // Does not fit 64 bits; a jid.
        "18446744073709551616",
        "-9223372036854775809",
        "20260721101112123456",
        // 5, True and a mapping in Salt: what stands after the # is lost.
        "5 # x",
        "yes # x",
        "a: b # c",
        // Empty text or nothing in Salt.
        ">",
        "| ",
        "!!str ",
        "&a",
        "&x y",
    ] {
        assert_eq!(parse_argument(word), text(word), "{word:?}");
    }
}

fn parsed(words: &[&str]) -> saline_messages::Arguments {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    parse_arguments(&words)
}

#[test]
fn named_arguments_are_taken_apart() {
    let arguments = parsed(&[
        "ls -l", "cwd=/tmp", "n=1", "_x1=[a]", "n=2", "empty=", "q=a=b",
    ]);
    assert_eq!(arguments.positional, [text("ls -l")]);
    let named = [
        ("cwd", text("/tmp")),
        ("n", Value::Int(2)),
        ("_x1", Value::texts(["a"])),
        ("empty", text("")),
        ("q", text("a=b")),
    ];
    let named: Vec<_> = named.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    assert_eq!(arguments.named, named);
}

#[test]
fn other_words_with_an_equals_sign_are_positional() {
    let words = [
        "a==b",
        "=a",
        "1a=b",
        "-a=b",
        "--a=b",
        "'a=b'",
        "a b=c",
        "a-b=c",
        "http://x/?y=z",
        "a=b\nc",
        "é=1",
        "[a=b",
    ];
    let arguments = parsed(&words);
    assert!(arguments.named.is_empty());
    assert_eq!(arguments.positional.len(), words.len());
    assert_eq!(arguments.positional[5], text("a=b"));
}

#[test]
fn a_command_stays_the_text_that_was_typed() {
    for command in [
        "yes",
        "true",
        "no",
        "off",
        "null",
        "~",
        "None",
        "5",
        "0644",
        "1.50",
        "[ -f /etc/hosts ]",
        "{a: 1}",
        "'ls' ",
        "\"ls\"",
        "",
        "''",
        "!x",
    ] {
        let words = ["cwd=/tmp", command, "5"].map(str::to_owned);
        for function in ["cmd.run", "cmd.run_all", "cmd.retcode"] {
            let arguments = parse_call(function, &words);
            assert_eq!(
                arguments.positional,
                [text(command), Value::Int(5)],
                "{command:?}"
            );
        }
        let words = [format!("cmd={command}"), "timeout=5".to_owned()];
        let named = parse_call("cmd.run", &words).named;
        let expected = match command {
            "[ -f /etc/hosts ]" => Value::texts(["-f /etc/hosts"]),
            _ => text(command),
        };
        assert_eq!(named[0], ("cmd".to_owned(), expected));
        assert_eq!(named[1], ("timeout".to_owned(), Value::Int(5)));
    }
    let echo = parse_call("test.echo", &["yes".to_owned()]);
    assert_eq!(echo.positional, [Value::Bool(true)]);
    let last = parse_call("cmd.run", &["cmd=no".to_owned(), "cmd=yes".to_owned()]);
    assert_eq!(last.named, [("cmd".to_owned(), text("yes"))]);
}

#[test]
fn deep_and_large_words_stay_text() {
    for word in ["[".repeat(100_000), "[".repeat(80) + &"]".repeat(80)] {
        assert_eq!(parse_argument(&word), text(&word));
    }
    let deep = "[".repeat(60) + &"]".repeat(60);
    let value = parse_argument(&deep);
    assert_ne!(value, text(&deep));
    assert!(depth(&value) < MAX_DEPTH - 10);
}

fn depth(value: &Value) -> usize {
    match value {
        Value::List(values) => 1 + values.iter().map(depth).max().unwrap_or_default(),
        Value::Map(entries) => {
            1 + entries
                .iter()
                .map(|(_, v)| depth(v))
                .max()
                .unwrap_or_default()
        }
        _ => 0,
    }
}

/// Words made of what YAML gives a meaning.
fn yaml_like() -> impl Strategy<Value = String> {
    let tokens = prop::sample::select(vec![
        "a", "1", "0", "_", ".", "-", "+", "e+3", "0x", "yes", "~", "[", "]", "{", "}", ",", ": ",
        ":", " ", "\"", "'", "#", "!", "!!str ", "&a ", "*a", "|", ">", "%", "? ", "- ", "=",
        "<<: ", "é", "\\", "\n", "\t", "\0", "\u{feff}", "---", "...",
    ]);
    prop::collection::vec(tokens, 0..24).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_word_becomes_a_value_that_can_be_sent(word in prop_oneof![".*", yaml_like()]) {
        let value = parse_argument(&word);
        let packed = saline_data::Packed::pack(&value);
        let unpacked = packed.unpack().unwrap();
        prop_assert!(unpacked == value || word.contains(".nan"), "{word:?}");
        let arguments = parse_arguments(&[word.clone(), word]);
        prop_assert!(arguments.positional.len() + arguments.named.len() <= 2);
    }

    #[test]
    fn whole_numbers_are_read_back(number: i64) {
        prop_assert_eq!(parse_argument(&number.to_string()), Value::Int(number));
    }

    #[test]
    fn json_is_read_as_itself(list in prop::collection::vec("[a-z ]{0,8}", 0..8)) {
        prop_assert_eq!(parse_argument(&format!("{list:?}")), Value::texts(list));
    }
}
