//! What a peer sends reaches an operator only as data, in every output.

use proptest::prelude::*;
use saline_data::Value;
use saline_messages::KeyState;

use super::keys::{Heading, Line};
use super::{Format, Style, keys, no_return};
use saline_data::arbitrary::{texts, values};
use saline_data::json;

const FILE: Style = Style {
    colour: false,
    terminal: false,
    indent: None,
};
const TERMINAL: Style = Style {
    colour: false,
    terminal: true,
    indent: None,
};

/// The formats that print a return.
const FORMATS: [Format; 9] = [
    Format::Nested,
    Format::Json,
    Format::Yaml,
    Format::Txt,
    Format::Raw,
    Format::Pprint,
    Format::Key,
    Format::Table,
    Format::NewlineValuesOnly,
];

/// The characters that no output may hold, said once more and not taken from the code that escapes them.
fn commands_a_terminal(c: char) -> bool {
    matches!(
        u32::from(c),
        0x00..=0x08
            | 0x0b..=0x1f
            | 0x7f..=0x9f
            | 0x61c
            | 0x200e
            | 0x200f
            | 0x2028..=0x202e
            | 0x2066..=0x2069
    )
}

fn holds_only_data(text: &str) -> bool {
    !text.contains(commands_a_terminal)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("the output is text")
}

fn has_bytes(value: &Value) -> bool {
    match value {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).is_err(),
        Value::List(values) => values.iter().any(has_bytes),
        Value::Map(entries) => entries.iter().any(|(_, value)| has_bytes(value)),
        _ => false,
    }
}

#[test]
fn a_key_with_a_newline_is_not_another_minions_answer() {
    let forged = Value::map([("x\nm001:\n    True\nm002", Value::Bool(false))]);
    let data = Value::map([("m000", forged)]);
    let shown = Format::Nested.render(&data, TERMINAL, false).map(text);
    insta::assert_snapshot!(shown.unwrap_or_default(), @r"
    m000:
        ----------
        x\nm001:\n    True\nm002:
            False
    ");
}

#[test]
fn a_minion_does_not_command_the_terminal() {
    let value = Value::List(vec![
        "\x1b]0;x\x07".into(),
        "a\tb\u{9b}2J\u{202e}c\x7f".into(),
        Value::Bytes(b"\x1b\xff\xc2\x9b".to_vec()),
    ]);
    let data = Value::map([("m000", value)]);
    let shown = |format: Format, style| {
        format
            .render(&data, style, false)
            .map(text)
            .unwrap_or_default()
    };
    insta::assert_snapshot!(shown(Format::Nested, TERMINAL), @r"
    m000:
        - \x1b]0;x\x07
        - a	b\x9b2J\u202ec\x7f
        - \x1b\xff\x9b
    ");
    insta::assert_snapshot!(shown(Format::Raw, TERMINAL), @r"{'m000': ['\x1b]0;x\x07', 'a\tb\x9b2J\u202ec\x7f', b'\x1b\xff\xc2\x9b']}");
    insta::assert_snapshot!(shown(Format::Yaml, TERMINAL), @r#"
    m000:
    - "\x1b]0;x\x07"
    - "a\tb\x9b2J\u202ec\x7f"
    - !!binary "G//Cmw=="
    "#);
    insta::assert_snapshot!(shown(Format::Txt, TERMINAL), @r"m000: ['\x1b]0;x\x07', 'a\tb\x9b2J\u202ec\x7f', b'\x1b\xff\xc2\x9b']");
    insta::assert_snapshot!(shown(Format::Pprint, TERMINAL), @r"{'m000': ['\x1b]0;x\x07', 'a\tb\x9b2J\u202ec\x7f', b'\x1b\xff\xc2\x9b']}");
    insta::assert_snapshot!(shown(Format::Table, TERMINAL), @r"
    m000:
        -------------------------
        | \x1b]0;x\x07          |
        | a\tb\x9b2J\u202ec\x7f |
        | b'\x1b\xff\xc2\x9b'   |
        -------------------------
    ");
    insta::assert_snapshot!(shown(Format::NewlineValuesOnly, TERMINAL), @r"
    \x1b]0;x\x07
    a	b\x9b2J\u202ec\x7f
    \x1b\xff\x9b
    ");
    insta::assert_snapshot!(shown(Format::Json, TERMINAL), @r#"
    {
        "m000": [
            "\u001b]0;x\u0007",
            "a\tb\u009b2J\u202ec\u007f",
            "b'\\x1b\\xff\\xc2\\x9b'"
        ]
    }
    "#);
}

#[test]
fn a_name_and_a_fingerprint_stay_in_their_line() {
    let line = Line {
        name: "m1\nDenied Keys:\x1b[2J".to_owned(),
        detail: Some("12:34\u{202e}".to_owned()),
        remark: None,
    };
    let groups = [(Heading::State(KeyState::Accepted), vec![line])];
    insta::assert_snapshot!(text(keys::render(&groups, TERMINAL)), @r"
    Accepted Keys:
    m1\nDenied Keys:\x1b[2J:  12:34\u202e
    ");
    let absent = no_return::render("m1\nm2:\x1b[2J", "No\u{9b}2J\nresponse", TERMINAL);
    insta::assert_snapshot!(text(absent), @r"
    m1\nm2:\x1b[2J:
        No\x9b2J
        response
    ");
}

proptest! {
    #[test]
    fn nothing_but_data_reaches_a_terminal(value in values(), failed in any::<bool>()) {
        let data = Value::map([("m000", value)]);
        let nested = Format::Nested.render(&data, TERMINAL, failed).map(text).unwrap_or_default();
        prop_assert!(holds_only_data(&nested), "{nested:?}");
        let mut lines = nested.split('\n');
        prop_assert_eq!(lines.next(), Some("m000:"));
        for line in lines {
            prop_assert!(line.starts_with("    "), "another minion's answer: {:?}", nested);
        }
        for format in FORMATS {
            let shown = format.render(&data, TERMINAL, failed).map(text).unwrap_or_default();
            prop_assert!(holds_only_data(&shown), "{format:?}: {shown:?}");
        }
        let lines = Format::Txt.render(&data, TERMINAL, failed).map(text).unwrap_or_default();
        for line in lines.split('\n').filter(|_| !lines.is_empty()) {
            prop_assert!(line.starts_with("m000: "), "another minion's answer: {:?}", lines);
        }
        let line = text(json::line(&data));
        prop_assert!(holds_only_data(&line) && !line.contains('\n'), "{line:?}");
    }

    #[test]
    fn nothing_but_data_and_foreign_bytes_reaches_a_file(value in values()) {
        prop_assume!(!has_bytes(&value));
        let data = Value::map([("m000", value)]);
        for format in FORMATS {
            let shown = format.render(&data, FILE, false).map(text).unwrap_or_default();
            prop_assert!(holds_only_data(&shown), "{format:?}: {shown:?}");
        }
    }

    #[test]
    fn names_stay_in_their_line(name in texts(), detail in texts()) {
        let absent = text(no_return::render(&name, "no", TERMINAL));
        prop_assert!(holds_only_data(&absent), "{absent:?}");
        prop_assert_eq!(absent.split('\n').count(), 2);
        let remark = Some(detail.clone());
        let line = Line { name, detail: Some(detail.replace('\n', "")), remark };
        let keys = text(keys::render(&[(Heading::Local, vec![line])], TERMINAL));
        prop_assert!(holds_only_data(&keys), "{keys:?}");
        prop_assert_eq!(keys.split('\n').count(), 2);
    }
}
