//! Values of every shape, for property tests.

use crate::Value;
use proptest::prelude::*;

/// Characters that a hostile peer would choose: what ends a line, moves a cursor, begins an escape
/// sequence, or turns the direction of writing.
const HOSTILE: &[char] = &[
    '\0', '\x07', '\x08', '\t', '\n', '\x0b', '\x0c', '\r', '\x1b', '\x1c', '\x7f', '\u{85}',
    '\u{90}', '\u{9b}', '\u{9d}', '\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}',
    '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', ':', '-', ' ', '"', '\'', '\\',
];

/// Any text, with more of the hostile characters than chance would bring.
pub fn texts() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        any::<char>(),
        proptest::sample::select(HOSTILE),
        proptest::char::range('a', 'z'),
    ];
    proptest::collection::vec(character, 0..12).prop_map(String::from_iter)
}

/// Any bytes: among them such that are almost text.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let almost_text = (texts(), any::<u8>()).prop_map(|(text, byte)| {
        let mut bytes = text.into_bytes();
        bytes.push(byte);
        bytes
    });
    prop_oneof![any::<Vec<u8>>(), almost_text]
}

/// Any value that a minion can return.
pub fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::UInt),
        any::<f64>().prop_map(Value::Float),
        Just(Value::Float(f64::NAN)),
        texts().prop_map(Value::Text),
        bytes().prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            proptest::collection::vec((texts(), inner), 0..6).prop_map(Value::Map),
        ]
    })
}
