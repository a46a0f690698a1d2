//! Snapshots of the outputs.

mod keys;
mod nested;
mod table;

use saline_data::Value;

use super::{Format, Style, no_return};

const PLAIN: Style = Style {
    colour: false,
    terminal: false,
    indent: None,
};
const COLOURED: Style = Style {
    colour: true,
    terminal: true,
    indent: None,
};

fn shown(format: Format, value: Value) -> String {
    styled(format, value, PLAIN, false)
}

fn styled(format: Format, value: Value, style: Style, failed: bool) -> String {
    let bytes = format
        .render(&Value::map([("m000", value)]), style, failed)
        .unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .replace('\x1b', "␛")
        .replace(" \n", "·\n")
}

fn everything() -> Value {
    Value::map([
        ("zero", Value::Int(0)),
        ("none", Value::Null),
        ("yes", Value::Bool(true)),
        ("no", Value::Bool(false)),
        ("large", Value::UInt(u64::MAX)),
        ("pi", Value::Float(3.0)),
        ("empty text", Value::from("")),
        ("empty list", Value::List(vec![])),
        ("empty map", Value::Map(vec![])),
        ("lines", Value::from("one\n\n  two ä\n")),
        ("texts", Value::texts(["a", "b\nc"])),
        (
            "nested",
            Value::List(vec![
                Value::Int(1),
                Value::List(vec![Value::Int(2), Value::List(vec![Value::Null])]),
                Value::map([
                    ("k", Value::texts(["v"])),
                    ("j", Value::map([("i", 1.5.into())])),
                ]),
                Value::Map(vec![]),
            ]),
        ),
    ])
}

#[test]
fn bytes_that_are_not_text_reach_a_file_unchanged() {
    let data = Value::map([("m", Value::Bytes(b"\xff\xfe\n\x1b\x80".to_vec()))]);
    let nested = Format::Nested.render(&data, PLAIN, false);
    assert_eq!(nested, Some(b"m:\n    \xff\xfe\n    \x1b\x80".to_vec()));
    let json = Format::Json.render(&data, PLAIN, false).unwrap_or_default();
    insta::assert_snapshot!(String::from_utf8(json).expect("JSON is UTF-8"), @r#"
    {
        "m": "b'\\xff\\xfe\\n\\x1b\\x80'"
    }
    "#);
}

#[test]
fn json_everything() {
    insta::assert_snapshot!(shown(Format::Json, everything()), @r#"
    {
        "m000": {
            "zero": 0,
            "none": null,
            "yes": true,
            "no": false,
            "large": 18446744073709551615,
            "pi": 3.0,
            "empty text": "",
            "empty list": [],
            "empty map": {},
            "lines": "one\n\n  two ä\n",
            "texts": [
                "a",
                "b\nc"
            ],
            "nested": [
                1,
                [
                    2,
                    [
                        null
                    ]
                ],
                {
                    "k": [
                        "v"
                    ],
                    "j": {
                        "i": 1.5
                    }
                },
                {}
            ]
        }
    }
    "#);
}

#[test]
fn raw_everything() {
    insta::assert_snapshot!(shown(Format::Raw, Value::Bool(true)), @"{'m000': True}");
    insta::assert_snapshot!(shown(Format::Raw, everything()), @r#"{'m000': {'zero': 0, 'none': None, 'yes': True, 'no': False, 'large': 18446744073709551615, 'pi': 3.0, 'empty text': '', 'empty list': [], 'empty map': {}, 'lines': 'one\n\n  two ä\n', 'texts': ['a', 'b\nc'], 'nested': [1, [2, [None]], {'k': ['v'], 'j': {'i': 1.5}}, {}]}}"#);
}

#[test]
fn quiet_is_nothing() {
    assert_eq!(shown(Format::Quiet, everything()), "");
}

#[test]
fn no_return_plain_and_in_colours() {
    let text = "Minion did not return. [No response]\nLater:\n\nsaline-run";
    let show = |style| {
        String::from_utf8_lossy(&no_return::render("m009", text, style))
            .replace('\x1b', "␛")
            .replace(" \n", "·\n")
    };
    insta::assert_snapshot!(show(PLAIN), @"
    m009:
        Minion did not return. [No response]
        Later:
       ·
        saline-run
    ");
    insta::assert_snapshot!(show(COLOURED), @"
    ␛[0;36mm009␛[0;0m:
    ␛[0;31m    Minion did not return. [No response]␛[0;0m
    ␛[0;31m    Later:␛[0;0m
    ␛[0;31m    ␛[0;0m
    ␛[0;31m    saline-run␛[0;0m
    ");
}

/// A value of every shape that outputs lay out in their own way.
fn services() -> Value {
    let service = |name: &str, port: i64, up: bool| {
        Value::map([
            ("name", name.into()),
            ("port", Value::Int(port)),
            ("up", up.into()),
        ])
    };
    Value::List(vec![service("ssh", 22, true), service("https", 443, false)])
}

#[test]
fn yaml() {
    insta::assert_snapshot!(shown(Format::Yaml, Value::Bool(true)), @"m000: true");
    insta::assert_snapshot!(shown(Format::Yaml, everything()), @"
    m000:
      zero: 0
      'none': null
      'yes': true
      'no': false
      large: 18446744073709551615
      pi: 3.0
      empty text: ''
      empty list: []
      empty map: {}
      lines: |
        one

          two ä
      texts:
      - a
      - |-
        b
        c
      nested:
      - 1
      - - 2
        - - null
      - k:
        - v
        j:
          i: 1.5
      - {}
    ");
    insta::assert_snapshot!(shown(Format::Yaml, services()), @"
    m000:
    - name: ssh
      port: 22
      up: true
    - name: https
      port: 443
      up: false
    ");
    let indented = |indent| Style {
        indent: Some(indent),
        ..PLAIN
    };
    insta::assert_snapshot!(styled(Format::Yaml, everything(), indented(4), false), @"
    m000:
        zero: 0
        'none': null
        'yes': true
        'no': false
        large: 18446744073709551615
        pi: 3.0
        empty text: ''
        empty list: []
        empty map: {}
        lines: |
            one

              two ä
        texts:
        - a
        - |-
          b
          c
        nested:
        - 1
        - - 2
          - - null
        - k:
          - v
          j:
              i: 1.5
        - {}
    ");
    insta::assert_snapshot!(styled(Format::Yaml, everything(), indented(-1), false), @r#"{m000: {zero: 0, 'none': null, 'yes': true, 'no': false, large: 18446744073709551615, pi: 3.0, empty text: '', empty list: [], empty map: {}, lines: "one\n\n  two ä\n", texts: [a, "b\nc"], nested: [1, [2, [null]], {k: [v], j: {i: 1.5}}, {}]}}"#);
}

#[test]
fn json_with_another_indentation() {
    let indented = |indent| Style {
        indent: Some(indent),
        ..PLAIN
    };
    insta::assert_snapshot!(styled(Format::Json, services(), indented(1), false), @r#"
    {
     "m000": [
      {
       "name": "ssh",
       "port": 22,
       "up": true
      },
      {
       "name": "https",
       "port": 443,
       "up": false
      }
     ]
    }
    "#);
    insta::assert_snapshot!(styled(Format::Json, services(), indented(-1), false), @r#"{"m000": [{"name": "ssh", "port": 22, "up": true}, {"name": "https", "port": 443, "up": false}]}"#);
}

#[test]
fn txt() {
    insta::assert_snapshot!(shown(Format::Txt, Value::Bool(true)), @"m000: True");
    insta::assert_snapshot!(shown(Format::Txt, "one\n\ntwo\n".into()), @"
    m000: one
    m000:·
    m000: two
    ");
    // Nobody would know who returned it.
    insta::assert_snapshot!(shown(Format::Txt, "".into()), @"m000:");
    insta::assert_snapshot!(shown(Format::Txt, services()), @"m000: [{'name': 'ssh', 'port': 22, 'up': True}, {'name': 'https', 'port': 443, 'up': False}]");
}

#[test]
fn newline_values_only() {
    insta::assert_snapshot!(shown(Format::NewlineValuesOnly, Value::Bool(true)), @"True");
    insta::assert_snapshot!(shown(Format::NewlineValuesOnly, services()), @"
    ssh
    22
    True
    https
    443
    False
    ");
}

#[test]
fn pprint() {
    insta::assert_snapshot!(shown(Format::Pprint, Value::Bool(true)), @"{'m000': True}");
    insta::assert_snapshot!(shown(Format::Pprint, everything()), @r"
    {'m000': {'empty list': [],
              'empty map': {},
              'empty text': '',
              'large': 18446744073709551615,
              'lines': 'one\n\n  two ä\n',
              'nested': [1, [2, [None]], {'j': {'i': 1.5}, 'k': ['v']}, {}],
              'no': False,
              'none': None,
              'pi': 3.0,
              'texts': ['a', 'b\nc'],
              'yes': True,
              'zero': 0}}
    ");
    insta::assert_snapshot!(shown(Format::Pprint, services()), @"
    {'m000': [{'name': 'ssh', 'port': 22, 'up': True},
              {'name': 'https', 'port': 443, 'up': False}]}
    ");
}

#[test]
fn nothing_is_printed_where_only_the_absent_are_asked_for() {
    assert_eq!(shown(Format::NoReturn, everything()), "");
}
