//! Values and arguments, as functions take and return them.

use std::collections::HashSet;

use saline_data::{MAX_DEPTH, MAX_VALUES, Packed, Value};
use saline_messages::{Arguments, PackedArguments};

pub(crate) fn values(bytes: &[u8]) {
    let packed = Packed::from_bytes(bytes.to_vec());
    let Ok(value) = packed.unpack() else {
        assert_eq!(packed.unpack_or_show(), Value::Bytes(bytes.to_vec()));
        return;
    };
    let (depth, count) = size(&value);
    assert!(depth <= MAX_DEPTH && count <= MAX_VALUES);
    let again = Packed::pack(&value);
    let read = again.unpack().expect("a value that was packed");
    // Packed, since a float may be none of the numbers.
    assert_eq!(Packed::pack(&read), again);
}

/// Returns how deeply a value nests, and how many values it is.
fn size(value: &Value) -> (usize, usize) {
    let inner: Vec<(usize, usize)> = match value {
        Value::List(values) => values.iter().map(size).collect(),
        Value::Map(entries) => entries.iter().map(|(_, value)| size(value)).collect(),
        _ => return (0, 1),
    };
    let deepest = inner.iter().map(|(depth, _)| *depth).max();
    let count: usize = inner.iter().map(|(_, count)| *count).sum();
    (1 + deepest.unwrap_or_default(), 1 + count)
}

pub(crate) fn arguments(bytes: &[u8]) {
    let packed = PackedArguments::from_packed(Packed::from_bytes(bytes.to_vec()));
    let Ok(arguments) = packed.unpack() else {
        return;
    };
    let names: HashSet<&str> = arguments.named.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names.len(), arguments.named.len(), "a name occurs twice");
    let again = arguments.pack();
    let read = again.unpack().expect("arguments that were packed");
    assert_eq!(read.pack(), again);
}

/// Returns a value of every kind.
fn every_kind() -> Vec<Value> {
    let texts = Value::texts(["a", "ä"]);
    vec![
        Value::Null,
        Value::Bool(true),
        Value::Int(-1),
        Value::Int(i64::MIN),
        Value::UInt(u64::MAX),
        Value::Float(1.5),
        Value::from("text"),
        Value::from("x".repeat(300)),
        Value::Bytes(vec![0xff; 3]),
        Value::List(vec![Value::Null; 20]),
        Value::map([("a", texts.clone()), ("b", Value::map([("c", texts)]))]),
        (0..20).fold(Value::Null, |inner, _| Value::List(vec![inner])),
    ]
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let packed = every_kind().into_iter();
    let mut seeds: Vec<Vec<u8>> = packed
        .map(|value| Packed::pack(&value).as_bytes().to_vec())
        .collect();
    // Keys that are no text, a float of 32 bits, an extension, and lengths of which nothing follows.
    seeds.push(vec![0x83, 0xc3, 0xc0, 0x07, 0xc0, 0xc0, 0xc0]);
    seeds.push(vec![0xca, 0x3f, 0x80, 0, 0]);
    seeds.push(vec![0xd4, 0x01, 0x00]);
    seeds.push(vec![0xdd, 0xff, 0xff, 0xff, 0xff]);
    seeds.push(vec![0xdf, 0xff, 0xff, 0xff, 0xff]);
    seeds.push(vec![0xc6, 0xff, 0xff, 0xff, 0xff]);
    seeds.push([0xdd, 0xff, 0xff, 0xff, 0xff].repeat(99));
    // Keys in keys, and a value with another one behind it.
    seeds.push([&[0x81; 20][..], b"\xa1\"", &[0xc0; 20]].concat());
    seeds.push(vec![0xc0, 0xc0]);
    seeds
}

pub(crate) fn argument_seeds() -> Vec<Vec<u8>> {
    let arguments = Arguments {
        positional: every_kind(),
        named: vec![("k".into(), Value::Null), ("l".into(), Value::Bool(true))],
    };
    let mut seeds: Vec<Vec<u8>> = [Arguments::default(), arguments]
        .iter()
        .map(|arguments| arguments.pack().as_packed().as_bytes().to_vec())
        .collect();
    // A name twice, and a text instead of a list.
    let twice = [("__kwarg__", true), ("k", true), ("k", false)];
    let twice = Value::map(twice.map(|(name, value)| (name, Value::from(value))));
    for value in [Value::List(vec![twice]), Value::from("text")] {
        seeds.push(Packed::pack(&value).as_bytes().to_vec());
    }
    seeds
}
