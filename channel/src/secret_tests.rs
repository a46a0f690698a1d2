//! Every secret that this crate holds in memory is overwritten when it is dropped.

#![allow(
    unsafe_code,
    reason = "to look at a value after its drop, in a place that still stands"
)]

use std::mem::ManuallyDrop;

use super::noise::SplitKeys;
use super::{Identity, NoiseKey};
use saline_messages::GroupKeyMaterial;

/// Drops `secret` where it is, and returns its bytes from there.
fn after_drop<T>(secret: T, bytes: impl Fn(&T) -> Vec<u8>) -> Vec<u8> {
    let mut place = ManuallyDrop::new(secret);
    assert!(bytes(&place).iter().any(|byte| *byte != 0));
    // SAFETY: it is dropped once. What is read of it afterwards are arrays of bytes in this place.
    unsafe { ManuallyDrop::drop(&mut place) };
    bytes(&place)
}

#[test]
fn secrets_are_overwritten_when_they_are_dropped() {
    let keys = SplitKeys {
        initiator: [1; 32],
        responder: [2; 32],
    };
    let both = |keys: &SplitKeys| [keys.initiator, keys.responder].concat();
    assert_eq!(after_drop(keys, both), [0; 64]);

    let group = GroupKeyMaterial {
        epoch: 1,
        key: [3; 32],
        last_number: 0,
    };
    assert_eq!(after_drop(group, |group| group.key.to_vec()), [0; 32]);

    // The pair beside its seed is aws-lc-rs', which overwrites its own.
    let identity = Identity::generate().unwrap();
    let seed = |identity: &Identity| identity.seed.to_vec();
    assert_eq!(after_drop(identity, seed), [0; 32]);

    let noise = NoiseKey::generate().unwrap();
    assert_eq!(after_drop(noise, |noise| noise.private.to_vec()), [0; 32]);
}
