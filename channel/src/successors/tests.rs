use proptest::prelude::*;

use super::*;

/// A master's identities, and the records that lead from the first to the last.
fn rotated(count: usize) -> (Vec<Identity>, Successors) {
    let new = || Identity::generate().unwrap();
    let (mut identities, mut successors) = (vec![new()], Successors::default());
    for _ in 0..count {
        let next = new();
        successors = successors.with(identities.last().unwrap(), next.public());
        identities.push(next);
    }
    (identities, successors)
}

fn publics(identities: &[Identity]) -> Vec<PublicIdentity> {
    identities.iter().map(Identity::public).collect()
}

#[test]
fn records_lead_from_each_identity_to_each_later_one() {
    let (identities, successors) = rotated(3);
    let publics = publics(&identities);
    for (at, identity) in publics.iter().enumerate() {
        assert_eq!(successors.predecessors_of(*identity), publics[..at]);
        let only = successors.only_to(*identity);
        assert_eq!(only.predecessors_of(*identity), publics[..at]);
        assert_eq!(only.is_empty(), at == 0);
    }
    let stranger = Identity::generate().unwrap().public();
    assert_eq!(successors.predecessors_of(stranger), []);
}

#[test]
fn the_oldest_records_go() {
    let (identities, successors) = rotated(MAX_SUCCESSORS + 2);
    let publics = publics(&identities);
    let last = *publics.last().unwrap();
    assert_eq!(
        successors.predecessors_of(last),
        publics[2..MAX_SUCCESSORS + 2]
    );
    assert_eq!(successors.to_bytes().len(), MAX_SUCCESSORS * RECORD);
}

#[test]
fn a_record_that_is_missing_or_out_of_order_ends_what_leads() {
    let (identities, successors) = rotated(3);
    let publics = publics(&identities);
    let without = |at: usize| {
        let mut records = successors.clone();
        records.0.remove(at);
        records.predecessors_of(publics[3])
    };
    assert_eq!(without(0), publics[1..3]);
    assert_eq!(without(1), publics[2..3]);
    assert_eq!(without(2), []);
    let mut swapped = successors.clone();
    swapped.0.swap(0, 1);
    assert_eq!(swapped.predecessors_of(publics[3]), publics[2..3]);
}

#[test]
fn whoever_does_not_have_the_old_key_signs_no_successor_of_it() {
    let (identities, successors) = rotated(1);
    let impostor = Identity::generate().unwrap();
    let victim = identities[1].public();
    // It names the victim as the predecessor, and signs by itself.
    let mut forged = successors.clone();
    forged.0.push(Successor {
        predecessor: victim,
        ..Successor::sign(&impostor, impostor.public())
    });
    assert_eq!(forged.predecessors_of(impostor.public()), []);
    // It takes a signature of the victim over something else.
    let job = identities[1].sign(&impostor.public().0);
    let mut forged = successors.clone();
    forged.0.push(Successor {
        predecessor: victim,
        identity: impostor.public(),
        signature: job.try_into().unwrap(),
    });
    assert_eq!(forged.predecessors_of(impostor.public()), []);
    // It takes the record of another successor.
    let mut forged = successors;
    forged.0[0].identity = impostor.public();
    assert_eq!(forged.predecessors_of(impostor.public()), []);
}

#[test]
fn a_master_that_goes_back_to_an_old_key_leads_there_and_ends() {
    let (identities, successors) = rotated(1);
    let back = successors.with(&identities[1], identities[0].public());
    let publics = publics(&identities);
    assert_eq!(back.predecessors_of(publics[0]), publics);
    assert_eq!(back.predecessors_of(publics[1]), publics[..1]);
}

#[test]
fn a_successor_that_was_given_up_is_in_nobodys_way() {
    let (identities, successors) = rotated(1);
    let given_up = Identity::generate().unwrap().public();
    let next = Identity::generate().unwrap().public();
    let records = successors.with(&identities[1], given_up);
    let records = records.with(&identities[1], next);
    assert_eq!(records.predecessors_of(next), publics(&identities));
    assert_eq!(records.predecessors_of(given_up), []);
}

#[test]
fn records_survive_the_file_and_what_holds_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity.successors");
    assert_eq!(Successors::read(&path).unwrap(), Successors::default());
    let (_, successors) = rotated(MAX_SUCCESSORS);
    successors.write(&path).unwrap();
    assert_eq!(Successors::read(&path).unwrap(), successors);
    for wrong in [
        String::new(),
        pem::encode_block(LABEL, &[0; RECORD - 1]),
        pem::encode_block(LABEL, &[0; RECORD * (MAX_SUCCESSORS + 1)]),
        pem::encode_block("PUBLIC KEY", &successors.to_bytes()),
    ] {
        std::fs::write(&path, wrong).unwrap();
        let error = Successors::read(&path).unwrap_err().to_string();
        assert!(error.contains("identity.successors"), "{error}");
    }
}

proptest! {
    #[test]
    fn any_change_of_a_byte_ends_what_leads(at in 0..RECORD * 2, bit in 0..8_u32) {
        let (identities, successors) = rotated(2);
        let publics = publics(&identities);
        let mut bytes = successors.to_bytes();
        prop_assert_eq!(Successors::from_bytes(&bytes), Some(successors));
        bytes[at] ^= 1 << bit;
        let led = Successors::from_bytes(&bytes).unwrap().predecessors_of(publics[2]);
        // The second record alone leads from the second identity.
        prop_assert_eq!(led, match at < RECORD {
            true => &publics[1..2],
            false => &[],
        });
    }

    #[test]
    fn any_bytes_are_whole_records_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..RECORD * 10)) {
        let is_whole = bytes.len().is_multiple_of(RECORD) && bytes.len() <= RECORD * MAX_SUCCESSORS;
        match Successors::from_bytes(&bytes) {
            Some(records) => prop_assert_eq!(records.to_bytes(), bytes),
            None => prop_assert!(!is_whole),
        }
    }
}
