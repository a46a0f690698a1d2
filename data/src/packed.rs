//! Values packed as MessagePack, as they travel and are stored, and the bounds of unpacking them.

use std::cell::Cell;
use std::fmt;
use std::io::ErrorKind;

use bytes::Bytes;
use rmp_serde::decode::Error;
use serde::de::{DeserializeSeed, IgnoredAny};
use serde::{Deserialize, Serialize, Serializer as _};

use super::Value;
use super::value::Budget;

/// How many values one packed value may hold. A nil is one byte on the wire and two dozen in memory.
pub const MAX_VALUES: usize = 1_000_000;

/// How deeply values may nest. A peer's bytes must not choose how much stack their decoding takes.
pub const MAX_DEPTH: usize = 100;

/// The reason why bytes are not a value.
#[derive(Debug, thiserror::Error)]
#[error("not a packed value: {0}")]
pub struct UnpackError(String);

impl UnpackError {
    /// Creates an error with this reason, for a value that unpacks and is still not what its reader expects.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A [`Value`] as MessagePack. A master stores and forwards these bytes as they came, and unpacks them only where it has to
/// judge or show the value. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Packed(Bytes);

impl Packed {
    /// Packs `value`.
    pub fn pack(value: &Value) -> Self {
        // Writing to memory does not fail, and a value's lengths are known.
        Self::exactly(rmp_serde::to_vec(value).unwrap_or_default())
    }

    /// Packs a mapping of these values, as [`pack`](Self::pack) does.
    pub fn pack_map(entries: &[(&str, &Value)]) -> Self {
        let mut bytes = Vec::new();
        let mut serializer = rmp_serde::Serializer::new(&mut bytes);
        // As in `pack`.
        let packed = serializer.collect_map(entries.iter().copied());
        Self::exactly(packed.map(|()| bytes).unwrap_or_default())
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
        Self::exactly(bytes)
    }

    /// Wraps bytes, and gives back the room behind them: whoever bounds what it keeps counts lengths.
    fn exactly(bytes: Vec<u8>) -> Self {
        Self(bytes.into_boxed_slice().into())
    }

    /// Wraps bytes that are claimed to be a packed value; [`unpack`](Self::unpack) finds out.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Unpacks the value. Bytes that are not a packed value are returned as [`Value::Bytes`].
    pub fn unpack_or_show(&self) -> Value {
        self.unpack()
            .unwrap_or_else(|_| Value::Bytes(self.0.to_vec()))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Unpacks the value.
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
pub fn unpack_within(bytes: &[u8], depth: usize, values: usize) -> Result<Value, UnpackError> {
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
        fn a_mapping_of_values_is_packed_as_the_mapping(entries in proptest::collection::vec((".{0,8}", values()), 0..20)) {
            let borrowed: Vec<_> = entries.iter().map(|(key, value)| (key.as_str(), value)).collect();
            prop_assert_eq!(Packed::pack_map(&borrowed), Packed::pack(&Value::Map(entries)));
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
    fn what_is_packed_keeps_no_room_behind_it() {
        let text = Value::from("x".repeat(100));
        let one = || Packed::pack(&Value::List(vec![text.clone(), Value::Int(1)]));
        let mapped = Packed::map([("one", one()), ("other", one())]);
        let entries = [("one", &text), ("other", &Value::Int(1))];
        for packed in [one(), mapped, Packed::pack_map(&entries)] {
            let length = packed.as_bytes().len();
            // Nobody shares them, so this is no copy.
            assert_eq!(Vec::from(packed.into_bytes()).capacity(), length);
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
