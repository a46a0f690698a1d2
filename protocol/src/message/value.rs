//! The values that functions take and return: self-describing, packed as MessagePack on the wire.

use std::cell::Cell;
use std::fmt;
use std::io::ErrorKind;

use rmp_serde::decode::Error;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many values one packed value may hold. A nil is one byte on the wire and two dozen in memory.
pub const MAX_VALUES: usize = 1_000_000;

/// How deeply values may nest. A peer's bytes must not choose how much stack their decoding takes.
pub const MAX_DEPTH: usize = 100;

/// The most elements for which a decoder makes room before it has seen them, at each level of nesting.
const CAUTIOUS_CAPACITY: usize = 64;

/// A value as YAML, JSON and Salt's functions know it, and bytes beside it: what a command prints
/// need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// Nothing.
    #[default]
    Null,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number that fits 64 bits with a sign.
    Int(i64),
    /// A whole number above that.
    UInt(u64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes that are not text.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// A mapping in the order in which it was written. Keys are text: others are written out.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// Text when the bytes are UTF-8, else bytes.
    pub fn from_output(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Bytes(error.into_bytes()),
        }
    }

    /// A mapping of these entries.
    pub fn map<K: Into<String>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    }

    /// A list of texts.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(|t| Self::Text(t.into())).collect())
    }

    /// The entry of that name, when this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Map(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text, when it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The whole number, when it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            Self::UInt(n) => i64::try_from(*n).ok(),
            _ => None,
        }
    }

    /// The truth value, when it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::UInt(value), Self::Int)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(value: Vec<Value>) -> Self {
        Self::List(value)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::UInt(value) => serializer.serialize_u64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Bytes(value) => serializer.serialize_bytes(value),
            Self::List(values) => {
                let mut seq = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    seq.serialize_element(value)?;
                }
                seq.end()
            }
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Budget(&Cell::new(usize::MAX)).deserialize(deserializer)
    }
}

/// Reads values as long as there are some left to be read.
#[derive(Clone, Copy)]
struct Budget<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Budget<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.0.get().checked_sub(1);
        self.0
            .set(left.ok_or_else(|| D::Error::custom("too many values"))?);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Budget<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(value.to_vec()))
    }

    fn visit_byte_buf<E>(self, value: Vec<u8>) -> Result<Value, E> {
        Ok(Value::Bytes(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values =
            Vec::with_capacity(seq.size_hint().unwrap_or_default().min(CAUTIOUS_CAPACITY));
        while let Some(value) = seq.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries =
            Vec::with_capacity(map.size_hint().unwrap_or_default().min(CAUTIOUS_CAPACITY));
        while let Some(key) = map.next_key_seed(self)? {
            let key = key_text(key).ok_or_else(|| A::Error::custom("a key is a list or a map"))?;
            entries.push((key, map.next_value_seed(self)?));
        }
        Ok(Value::Map(entries))
    }
}

/// A key as text; Salt's outputs write out keys that are not. None for lists and mappings: written out, each
/// level would escape the one inside it, and double its length.
fn key_text(key: Value) -> Option<String> {
    Some(match key {
        Value::Text(text) => text,
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => "None".to_owned(),
        Value::Int(n) => n.to_string(),
        Value::UInt(n) => n.to_string(),
        Value::Float(n) => n.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::List(_) | Value::Map(_) => return None,
    })
}

/// The reason why bytes are not a value.
#[derive(Debug, thiserror::Error)]
#[error("not a packed value: {0}")]
pub struct UnpackError(pub(super) String);

/// A [`Value`] as MessagePack. A master stores and forwards it without looking inside.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed(Vec<u8>);

impl Packed {
    /// Packs `value`.
    pub fn pack(value: &Value) -> Self {
        // Writing to memory does not fail, and a value's lengths are known.
        Self(rmp_serde::to_vec(value).unwrap_or_default())
    }

    /// Packs a mapping whose values are packed already. Each of them has to be one value: bytes that are none
    /// would make the whole unreadable.
    pub fn map<K: AsRef<str>>(entries: impl IntoIterator<Item = (K, Packed)>) -> Self {
        let mut body = Vec::new();
        let mut count = 0_u32;
        for (key, value) in entries {
            body.extend(rmp_serde::to_vec(key.as_ref()).unwrap_or_default());
            body.extend(value.0);
            count += 1;
        }
        // A mapping with a length of four bytes (`map 32`).
        let mut bytes = vec![0xdf];
        bytes.extend(count.to_be_bytes());
        bytes.append(&mut body);
        Self(bytes)
    }

    /// Bytes that are claimed to be a packed value; [`unpack`](Self::unpack) finds out.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Unpacks it; bytes that are not a packed value are shown as they are.
    pub fn unpack_or_show(&self) -> Value {
        self.unpack()
            .unwrap_or_else(|_| Value::Bytes(self.0.clone()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Unpacks it.
    ///
    /// # Errors
    /// When the bytes are not one MessagePack value, nest deeper than [`MAX_DEPTH`], hold more than
    /// [`MAX_VALUES`], or have a list or a mapping as a key.
    pub fn unpack(&self) -> Result<Value, UnpackError> {
        unpack_within(&self.0, MAX_DEPTH, MAX_VALUES)
    }
}

/// Unpacks one value that nests at most `depth` deep and holds at most `values`.
///
/// # Errors
/// When the bytes are no such value.
pub(crate) fn unpack_within(
    bytes: &[u8],
    depth: usize,
    values: usize,
) -> Result<Value, UnpackError> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(depth);
    let value = Budget(&Cell::new(values))
        .deserialize(&mut deserializer)
        .map_err(|error| UnpackError(error.to_string()))?;
    // The deserializer does not tell how much is left, but that not even a marker is: without depth, it
    // fails behind one that is there.
    deserializer.set_max_depth(1);
    match IgnoredAny::deserialize(&mut deserializer) {
        Err(Error::InvalidMarkerRead(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            Ok(value)
        }
        _ => Err(UnpackError("bytes follow it".to_owned())),
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unpack() {
            Ok(value) => write!(f, "Packed({value:?})"),
            Err(_) => write!(f, "Packed({} bytes)", self.0.len()),
        }
    }
}

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;
        impl Visitor<'_> for BytesVisitor {
            type Value = Packed;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of a packed value")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Packed, E> {
                Ok(Packed(bytes.to_vec()))
            }
            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Packed, E> {
                Ok(Packed(bytes))
            }
        }
        deserializer.deserialize_byte_buf(BytesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (i64::MAX as u64 + 1..=u64::MAX).prop_map(Value::UInt),
            any::<f64>()
                .prop_filter("NaN differs from itself", |f| !f.is_nan())
                .prop_map(Value::Float),
            ".{0,20}".prop_map(Value::Text),
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
                proptest::collection::vec((".{0,8}", inner), 0..6).prop_map(Value::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_unpacks(value in values()) {
            prop_assert_eq!(Packed::pack(&value).unpack().unwrap(), value);
        }

        #[test]
        fn a_mapping_of_packed_values_is_the_mapping(entries in proptest::collection::vec((".{0,8}", values()), 0..6)) {
            let packed = Packed::map(entries.iter().map(|(key, value)| (key, Packed::pack(value))));
            prop_assert_eq!(packed.unpack().unwrap(), Value::Map(entries));
        }

        #[test]
        fn any_bytes_unpack_or_fail_cleanly(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Packed::from_bytes(bytes).unpack();
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = Packed::from_bytes([vec![0x91; 100_000], vec![0xc0]].concat());
        assert!(deep.unpack().is_err());
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let nils = |n: u32| {
            let mut bytes = vec![0xdd];
            bytes.extend(n.to_be_bytes());
            bytes.resize(5 + n as usize, 0xc0);
            Packed::from_bytes(bytes).unpack()
        };
        let most = u32::try_from(MAX_VALUES).unwrap();
        assert!(nils(most - 1).is_ok(), "the list is a value too");
        assert!(nils(most).is_err());
    }

    #[test]
    fn a_key_does_not_nest() {
        // Each level wrote out the one before, with twice as many backslashes: 2^100 from 300 bytes.
        for levels in [1, 20] {
            let nested: Vec<u8> = std::iter::repeat_n(0x81, levels)
                .chain([0xa1, b'"'])
                .chain(std::iter::repeat_n(0xc0, levels))
                .collect();
            assert_eq!(Packed::from_bytes(nested).unpack().is_ok(), levels == 1);
        }
        assert!(Packed::from_bytes(vec![0x81, 0x90, 0xc0]).unpack().is_err());
    }

    #[test]
    fn nothing_follows_a_value() {
        for rest in [
            &[0xc0][..],
            &[0xc1],
            &[0x91],
            &[0x81, 0xc0],
            &[0xd4],
            &[0xdd, 0xff],
            &[0; 100],
        ] {
            let bytes = [&[0x01], rest].concat();
            assert!(Packed::from_bytes(bytes).unpack().is_err(), "{rest:?}");
        }
    }

    #[test]
    fn an_announced_length_reserves_nothing() {
        // An array of 2^32 - 1 elements of which none follows.
        assert!(
            Packed::from_bytes(vec![0xdd, 0xff, 0xff, 0xff, 0xff])
                .unpack()
                .is_err()
        );
        assert!(
            Packed::from_bytes(vec![0xc6, 0xff, 0xff, 0xff, 0xff])
                .unpack()
                .is_err()
        );
    }
}
