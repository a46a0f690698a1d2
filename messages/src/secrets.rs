//! Secret arguments: a job has a marker in the place of each, and the values travel beside it.
//!
//! What shows, stores or passes on a job's arguments needs not know which of them are secret. The marker of a value
//! is a digest under a random key, which travels with the values: who sees a marker cannot find a short value by
//! trying all. A job is signed with its markers, so the values are bound to it.

use std::fmt;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign, verify};
use bytes::BytesMut;
use saline_data::{MAX_DEPTH, MAX_VALUES, Packed, Value, unpack_within};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::Arguments;
use crate::random::{self, NoRandomness};

/// The key of a marker under which it has its digest, in hexadecimal. A mapping with this key alone is a marker.
const MARKER: &str = "__secret__";

/// The largest value of a secret argument, in bytes.
pub const MAX_SECRET: usize = 64 * 1024;

/// Where an argument stands among the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgumentPlace {
    /// The positional argument with this number, from 0 on.
    Positional(u32),
    /// The argument that is given by this name.
    Named(String),
}

impl ArgumentPlace {
    /// Returns the place of a named argument.
    pub fn named(name: impl Into<String>) -> Self {
        Self::Named(name.into())
    }

    fn size(&self) -> usize {
        match self {
            Self::Positional(_) => size_of::<u32>(),
            Self::Named(name) => name.len(),
        }
    }
}

impl fmt::Display for ArgumentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // As people count.
            Self::Positional(number) => write!(f, "{}", u64::from(*number) + 1),
            Self::Named(name) => write!(f, "'{name}'"),
        }
    }
}

/// The values of a job's secret arguments. Whoever has them can read them: they are only sent sealed, and stored
/// sealed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// The key of the digests that the job has in the place of the values.
    key: [u8; 32],
    /// Each packed value with the place of its argument. Nobody shares its bytes.
    values: Vec<(ArgumentPlace, BytesMut)>,
}

/// The secret values of a job do not belong to its arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The arguments have the marker of a secret whose value did not come.
    #[error(
        "the value of the secret argument {0} is missing: the master keeps such values for open jobs only, and \
         until its machine starts again; run the job again"
    )]
    Missing(ArgumentPlace),
    /// The value is not that of the marker.
    #[error("the value of the secret argument {0} is not the one that the master signed")]
    Other(ArgumentPlace),
}

impl Secrets {
    /// Adds secret values to arguments, as markers. Those of positional arguments come in their order, each with the number
    /// that it has among all. Returns the values; none if there are none.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn set_apart(
        arguments: &mut Arguments,
        values: Vec<(ArgumentPlace, Value)>,
    ) -> Result<Option<Self>, NoRandomness> {
        if values.is_empty() {
            return Ok(None);
        }
        let mut secrets = Self {
            key: random::bytes()?,
            values: Vec::new(),
        };
        let key = secrets.digest_key();
        for (place, value) in values {
            let packed = BytesMut::from(Packed::pack(&value).into_bytes());
            let digest: String = sign(&key, &packed)
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let marker = Value::map([(MARKER, Value::from(digest))]);
            match &place {
                ArgumentPlace::Positional(number) => {
                    let at = (*number as usize).min(arguments.positional.len());
                    arguments.positional.insert(at, marker);
                }
                ArgumentPlace::Named(name) => arguments.named.push((name.clone(), marker)),
            }
            secrets.values.push((place, packed));
        }
        Ok(Some(secrets))
    }

    /// Puts the values in the place of their markers. Returns the places of the arguments that are secret.
    ///
    /// # Errors
    /// When the value of a marker is missing, or is another one.
    pub fn put_in(
        secrets: Option<&Self>,
        arguments: &mut Arguments,
    ) -> Result<Vec<ArgumentPlace>, SecretError> {
        let positional = (0..).map(ArgumentPlace::Positional);
        let positional = positional.zip(&mut arguments.positional);
        let named = arguments.named.iter_mut();
        let named = named.map(|(name, value)| (ArgumentPlace::Named(name.clone()), value));
        let mut places = Vec::new();
        for (place, value) in positional.chain(named) {
            let Some(digest) = marked_digest(value) else {
                continue;
            };
            let missing = || SecretError::Missing(place.clone());
            let secrets = secrets.ok_or_else(missing)?;
            let mut values = secrets.values.iter();
            let (_, packed) = values.find(|(own, _)| *own == place).ok_or_else(missing)?;
            let other = || SecretError::Other(place.clone());
            let digest = from_hex(digest).ok_or_else(other)?;
            verify(&secrets.digest_key(), packed, &digest).map_err(|_| other())?;
            *value = unpack_within(packed, MAX_DEPTH, MAX_VALUES).map_err(|_| other())?;
            places.push(place);
        }
        Ok(places)
    }

    /// Returns about the size of the values in bytes, to bound how much is read at once.
    pub fn size(&self) -> usize {
        let sizes = self
            .values
            .iter()
            .map(|(place, packed)| place.size() + packed.len());
        sizes.sum::<usize>() + self.key.len()
    }

    fn digest_key(&self) -> Key {
        Key::new(HMAC_SHA256, &self.key)
    }
}

impl Drop for Secrets {
    /// Overwrites the key and the packed values. The copies that others made of them (unpacked arguments, what was sealed
    /// or opened) are not overwritten.
    fn drop(&mut self) {
        self.key.zeroize();
        for (_, value) in &mut self.values {
            value.zeroize();
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.values.iter().map(|(place, _)| place);
        f.debug_set().entries(places).finish()
    }
}

/// Whether an argument is the marker of a secret.
pub fn is_secret(value: &Value) -> bool {
    marked_digest(value).is_some()
}

fn marked_digest(value: &Value) -> Option<&str> {
    match value {
        Value::Map(entries) => match entries.as_slice() {
            [(key, Value::Text(digest))] if key == MARKER => Some(digest),
            _ => None,
        },
        _ => None,
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "correct horse";

    fn place() -> ArgumentPlace {
        ArgumentPlace::named("password")
    }

    fn marked() -> (Arguments, Secrets) {
        let mut arguments = Arguments {
            positional: vec![Value::from("user")],
            named: vec![("shell".to_owned(), Value::from("/bin/sh"))],
        };
        let values = vec![(place(), Value::from(VALUE))];
        let secrets = Secrets::set_apart(&mut arguments, values).unwrap().unwrap();
        (arguments, secrets)
    }

    #[test]
    fn a_value_takes_the_place_of_its_marker_and_is_not_in_it() {
        let (mut arguments, secrets) = marked();
        let travels = arguments.pack();
        let bytes = travels.as_packed().as_bytes();
        assert!(
            !bytes
                .windows(VALUE.len())
                .any(|part| part == VALUE.as_bytes())
        );
        assert!(is_secret(&arguments.named[1].1));
        assert!(!is_secret(&arguments.named[0].1));
        assert_eq!(format!("{secrets:?}"), r#"{Named("password")}"#);
        let places = Secrets::put_in(Some(&secrets), &mut arguments);
        assert_eq!(places, Ok(vec![place()]));
        assert_eq!(arguments.named[1].1, Value::from(VALUE));
    }

    #[test]
    fn positional_arguments_keep_their_order() {
        let mut arguments = Arguments {
            positional: vec![Value::from("user"), Value::from("/bin/sh")],
            named: Vec::new(),
        };
        let places = [1, 3].map(ArgumentPlace::Positional);
        let values = places
            .iter()
            .cloned()
            .zip([Value::from(VALUE), Value::from("1234")]);
        let secrets = Secrets::set_apart(&mut arguments, values.collect()).unwrap();
        let is_marker: Vec<bool> = arguments.positional.iter().map(is_secret).collect();
        assert_eq!(is_marker, [false, true, false, true]);
        let mut swapped = arguments.clone();
        swapped.positional.swap(1, 3);
        let found = Secrets::put_in(secrets.as_ref(), &mut arguments);
        assert_eq!(found, Ok(places.to_vec()));
        let expected = ["user", VALUE, "/bin/sh", "1234"].map(Value::from);
        assert_eq!(arguments.positional, expected);
        let refused = Secrets::put_in(secrets.as_ref(), &mut swapped).unwrap_err();
        assert_eq!(refused, SecretError::Other(ArgumentPlace::Positional(1)));
        let line = "the value of the secret argument 2 is not the one that the master signed";
        assert_eq!(refused.to_string(), line);
    }

    #[test]
    fn the_same_value_has_another_digest_in_each_job() {
        assert_ne!(marked().0, marked().0);
    }

    #[test]
    fn a_value_that_is_missing_or_another_one_is_refused() {
        let (arguments, secrets) = marked();
        let missing = SecretError::Missing(place());
        let put_in = |secrets: Option<&Secrets>| Secrets::put_in(secrets, &mut arguments.clone());
        assert_eq!(put_in(None), Err(missing.clone()));
        let mut renamed = secrets.clone();
        renamed.values[0].0 = ArgumentPlace::named("passwort");
        assert_eq!(put_in(Some(&renamed)), Err(missing));
        let mut changed = secrets.clone();
        changed.values[0].1 = Packed::pack(&Value::from("battery staple"))
            .into_bytes()
            .into();
        let other = SecretError::Other(place());
        assert_eq!(put_in(Some(&changed)), Err(other.clone()));
        let mut other_key = secrets.clone();
        other_key.key[0] ^= 1;
        assert_eq!(put_in(Some(&other_key)), Err(other.clone()));
        for digest in ["", "é", "0", "zz"] {
            let mut forged = arguments.clone();
            forged.named[1].1 = Value::map([(MARKER, Value::from(digest))]);
            let refused = Secrets::put_in(Some(&secrets), &mut forged);
            assert_eq!(refused, Err(other.clone()), "{digest:?}");
        }
    }

    #[test]
    fn arguments_without_a_marker_need_no_values() {
        let mut arguments = Arguments::default();
        assert_eq!(Secrets::set_apart(&mut arguments, Vec::new()), Ok(None));
        assert_eq!(Secrets::put_in(None, &mut arguments), Ok(Vec::new()));
    }
}
