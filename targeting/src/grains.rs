//! The grains that targets look at: the minion's own, or the packed ones that a master keeps of
//! thousands.

use std::borrow::Cow;

use saline_data::{Packed, UnpackError, Value, unpack_within};

/// The largest size of a minion's packed grains in bytes.
pub const MAX_GRAINS: usize = 256 * 1024;

/// How deeply grains may nest, the mapping of all grains included.
const GRAINS_DEPTH: usize = 16;

/// The largest number of values in a minion's grains.
const MAX_GRAIN_VALUES: usize = 20_000;

/// The grains of a minion, as a target looks at them.
pub trait Grains {
    /// Returns the grain of that name.
    fn grain(&self, name: &str) -> Option<Cow<'_, Value>>;

    /// Returns all grains, a mapping; that of packed ones is sorted by the names.
    fn all(&self) -> Cow<'_, Value>;
}

impl Grains for Value {
    fn grain(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.get(name).map(Cow::Borrowed)
    }

    fn all(&self) -> Cow<'_, Value> {
        Cow::Borrowed(self)
    }
}

/// The grains of one minion in little memory: packed, with the place of each. A grain is unpacked when it is
/// looked at.
///
/// A target looks at the grains of thousands of minions, of which no cache of the processor holds much. So the
/// places are sorted by a hash that they hold themselves: a name is read only where its hash is the one looked for.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedGrains {
    /// The names and the packed values, one after the other.
    bytes: Box<[u8]>,
    /// Sorted by the hashes of the names, and by the names where hashes are equal.
    places: Box<[GrainPlace]>,
}

/// The place of a grain: its name, and behind it its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GrainPlace {
    hash: u32,
    name: u32,
    value: u32,
    end: u32,
}

/// The reason why the grains of a minion are not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrainsError {
    /// The grains have more than [`MAX_GRAINS`] bytes.
    #[error("they have {0} bytes packed, and the most are {MAX_GRAINS}")]
    TooLarge(usize),
    /// The grains are no value, nest deeper than 16, or hold more than 20,000 values.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The grains are no mapping of names to values, or a name occurs twice.
    #[error("they are not a mapping in which each name occurs once")]
    NoMapping,
}

impl PackedGrains {
    /// Reads the packed grains that a minion sent.
    ///
    /// # Errors
    /// See [`GrainsError`].
    pub fn read(packed: &Packed) -> Result<Self, GrainsError> {
        let size = packed.as_bytes().len();
        if size > MAX_GRAINS {
            return Err(GrainsError::TooLarge(size));
        }
        let value = unpack_within(packed.as_bytes(), GRAINS_DEPTH, MAX_GRAIN_VALUES)?;
        let Value::Map(mut entries) = value else {
            return Err(GrainsError::NoMapping);
        };
        entries.sort_by_cached_key(|(name, _)| (hash(name), name.clone()));
        if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(GrainsError::NoMapping);
        }
        let mut bytes = Vec::with_capacity(size);
        // Packed again they are not larger than a few times the bound, so the places fit.
        let place = |bytes: &Vec<u8>| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut places = Vec::with_capacity(entries.len());
        for (name, value) in &entries {
            let name_at = place(&bytes);
            bytes.extend_from_slice(name.as_bytes());
            let value_at = place(&bytes);
            bytes.extend_from_slice(Packed::pack(value).as_bytes());
            places.push(GrainPlace {
                hash: hash(name),
                name: name_at,
                value: value_at,
                end: place(&bytes),
            });
        }
        // Names that were no text, and numbers, may have grown.
        if bytes.len() > MAX_GRAINS {
            return Err(GrainsError::TooLarge(bytes.len()));
        }
        Ok(Self {
            bytes: bytes.into(),
            places: places.into(),
        })
    }

    fn name(&self, place: &GrainPlace) -> &[u8] {
        self.bytes
            .get(place.name as usize..place.value as usize)
            .unwrap_or_default()
    }

    fn value(&self, place: &GrainPlace) -> Value {
        let bytes = self.bytes.get(place.value as usize..place.end as usize);
        // It was packed here.
        unpack_within(bytes.unwrap_or_default(), GRAINS_DEPTH, MAX_GRAIN_VALUES).unwrap_or_default()
    }

    /// Returns the size in memory in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<GrainPlace>()
    }
}

impl Grains for PackedGrains {
    fn grain(&self, name: &str) -> Option<Cow<'_, Value>> {
        let hash = hash(name);
        let found = self.places.binary_search_by(|place| {
            let by_hash = place.hash.cmp(&hash);
            by_hash.then_with(|| self.name(place).cmp(name.as_bytes()))
        });
        let place = self.places.get(found.ok()?)?;
        Some(Cow::Owned(self.value(place)))
    }

    fn all(&self) -> Cow<'_, Value> {
        let entries = self.places.iter().map(|place| {
            let name = String::from_utf8_lossy(self.name(place)).into_owned();
            (name, self.value(place))
        });
        let mut entries: Vec<(String, Value)> = entries.collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Cow::Owned(Value::Map(entries))
    }
}

/// Returns the FNV-1a hash of a name. A minion that chooses names with equal hashes gains nothing: they are told apart
/// by a search too.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

impl std::fmt::Debug for PackedGrains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedGrains({} grains)", self.places.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_one_hash_are_told_apart() {
        let (one, other) = ("costarring", "liquid");
        assert_eq!(hash(one), hash(other));
        let grains = Value::map([
            ("zone", Value::from(3_i64)),
            (other, Value::from(2_i64)),
            ("a", Value::from(0_i64)),
            (one, Value::from(1_i64)),
        ]);
        let packed = PackedGrains::read(&Packed::pack(&grains)).unwrap();
        assert_eq!(packed.grain(one).as_deref(), Some(&Value::from(1_i64)));
        assert_eq!(packed.grain(other).as_deref(), Some(&Value::from(2_i64)));
        let without = Value::map([(one, Value::Null)]);
        let without = PackedGrains::read(&Packed::pack(&without)).unwrap();
        assert_eq!(without.grain(other), None);
        let twice = Value::map([(one, Value::Null), (other, Value::Null), (one, Value::Null)]);
        let twice = PackedGrains::read(&Packed::pack(&twice));
        assert!(matches!(twice, Err(GrainsError::NoMapping)));
    }

    #[test]
    fn all_grains_are_sorted_by_name() {
        let names = ["zone", "os", "id", "a", "ipv4"];
        let grains = Value::map(names.map(|name| (name, Value::from(name))));
        let packed = PackedGrains::read(&Packed::pack(&grains)).unwrap();
        let mut sorted = names;
        sorted.sort_unstable();
        let sorted = Value::map(sorted.map(|name| (name, Value::from(name))));
        assert_eq!(*packed.all(), sorted);
    }
}
