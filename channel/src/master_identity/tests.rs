use std::os::unix::fs::PermissionsExt;

use super::*;

fn load(folder: &Path) -> MasterIdentity {
    MasterIdentity::load_or_create(folder).unwrap()
}

/// The keys that peers read: the identity, the Noise key, and the one in `identity.pub`.
fn published(folder: &Path) -> MasterKeys {
    MasterKeys::read(&folder.join(PUBLIC_FILE))
        .unwrap()
        .unwrap()
}

/// Asserts that the master with these keys has the identity `to`, and that `from` leads to it.
fn follows(loaded: &MasterIdentity, from: &[PublicIdentity], to: PublicIdentity) {
    assert_eq!(loaded.identity.public(), to);
    assert_eq!(loaded.successors.predecessors_of(to), from);
}

#[test]
fn a_next_identity_is_taken_over_by_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = load(folder);
    let old = first.identity.public();
    assert_eq!(MasterIdentity::next(folder).unwrap(), None);
    let next = MasterIdentity::prepare_next(folder).unwrap();
    assert_eq!(MasterIdentity::prepare_next(folder).unwrap(), next);
    assert_eq!(MasterIdentity::next(folder).unwrap(), Some(next));
    let mode = folder.join(NEXT_FILE).metadata().unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    // Until then nothing has changed.
    assert_eq!(Identity::load(folder).unwrap().public(), old);
    assert_eq!(published(folder).identity, old);

    let second = load(folder);
    follows(&second, &[old], next);
    assert_eq!(second.replaced, Some(old));
    assert_ne!(second.noise.public(), first.noise.public());
    assert!(second.noise.issued() > first.noise.issued());
    assert_eq!(published(folder), MasterKeys::of(next, &second.noise));
    assert_eq!(MasterIdentity::next(folder).unwrap(), None);

    let again = load(folder);
    follows(&again, &[old], next);
    assert_eq!(again.replaced, None);
    assert_eq!(again.noise.public(), second.noise.public());

    let third = MasterIdentity::prepare_next(folder).unwrap();
    follows(&load(folder), &[old, next], third);
}

/// Copies the files of a folder into another one.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_take_over_that_was_cut_at_any_step_is_finished() {
    let prepared = tempfile::tempdir().unwrap();
    let first = load(prepared.path());
    let old = first.identity.public();
    let next = MasterIdentity::prepare_next(prepared.path()).unwrap();
    let done = tempfile::tempdir().unwrap();
    copy(prepared.path(), done.path());
    load(done.path());
    let stale_noise = fs::read(prepared.path().join("noise.key")).unwrap();

    // The files as each step of the take-over leaves them.
    type Step<'s> = &'s dyn Fn(&Path);
    let record: Step<'_> = &|folder| {
        fs::copy(
            done.path().join(SUCCESSORS_FILE),
            folder.join(SUCCESSORS_FILE),
        )
        .unwrap();
    };
    let rename: Step<'_> = &|folder| fs::rename(folder.join(NEXT_FILE), folder.join(FILE)).unwrap();
    let no_noise: Step<'_> = &|folder| fs::remove_file(folder.join("noise.key")).unwrap();
    let new_noise: Step<'_> = &|folder| drop(NoiseKey::load_or_create(folder).unwrap());
    let steps = [record, rename, no_noise, new_noise];
    for taken in 0..=steps.len() {
        let cut = tempfile::tempdir().unwrap();
        let folder = cut.path();
        copy(prepared.path(), folder);
        for step in &steps[..taken] {
            step(folder);
        }
        let loaded = load(folder);
        follows(&loaded, &[old], next);
        assert_ne!(
            fs::read(folder.join("noise.key")).unwrap(),
            stale_noise,
            "after {taken} steps"
        );
        assert!(loaded.noise.issued() > first.noise.issued());
        assert_eq!(published(folder), MasterKeys::of(next, &loaded.noise));
        let again = load(folder);
        follows(&again, &[old], next);
        assert_eq!(again.noise.public(), loaded.noise.public());
    }
}

#[test]
fn a_next_identity_that_is_given_up_leaves_the_present_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let present = load(folder).identity.public();
    let given_up = MasterIdentity::prepare_next(folder).unwrap();
    // Also when the record was made already.
    let identity = Identity::load(folder).unwrap();
    let successors = Successors::default().with(&identity, given_up);
    successors.write(&folder.join(SUCCESSORS_FILE)).unwrap();
    fs::remove_file(folder.join(NEXT_FILE)).unwrap();
    let loaded = load(folder);
    follows(&loaded, &[], present);
    assert!(loaded.successors.is_empty(), "it is told to nobody");
    let next = MasterIdentity::prepare_next(folder).unwrap();
    follows(&load(folder), &[present], next);
}

#[test]
fn a_copy_that_was_put_back_in_part_takes_the_same_identity_over() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let old = load(folder).identity.public();
    let next = MasterIdentity::prepare_next(folder).unwrap();
    let kept = fs::read(folder.join(NEXT_FILE)).unwrap();
    load(folder);
    fs::write(folder.join(NEXT_FILE), kept).unwrap();
    fs::set_permissions(folder.join(NEXT_FILE), fs::Permissions::from_mode(0o600)).unwrap();
    let loaded = load(folder);
    follows(&loaded, &[old], next);
    assert_eq!(loaded.replaced, None);
    assert!(!folder.join(NEXT_FILE).exists());
}

#[test]
fn a_new_identity_vouches_for_a_new_noise_key() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut before = load(folder);
    for is_made_apart in [false, true] {
        for name in [FILE, PUBLIC_FILE] {
            fs::remove_file(folder.join(name)).unwrap();
        }
        if is_made_apart {
            // As `saline-key` does.
            Identity::load_or_create(folder).unwrap();
        }
        let made = load(folder);
        follows(&made, &[], made.identity.public());
        assert_ne!(made.identity.public(), before.identity.public());
        // Peers that know the old one would resume sessions with the old identity.
        assert_ne!(made.noise.public(), before.noise.public());
        before = made;
    }
}

#[test]
fn an_identity_that_was_put_in_place_by_hand_vouches_for_a_new_noise_key() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, stranger) = (load(folder.path()), load(other.path()));
    fs::copy(other.path().join(FILE), folder.path().join(FILE)).unwrap();
    let second = load(folder.path());
    follows(&second, &[], stranger.identity.public());
    assert_ne!(second.noise.public(), first.noise.public());
}

#[test]
fn what_cannot_be_taken_over_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let present = load(folder).identity.public();
    MasterIdentity::prepare_next(folder).unwrap();
    let next = folder.join(NEXT_FILE);
    let refused = || {
        MasterIdentity::load_or_create(folder)
            .unwrap_err()
            .to_string()
    };
    fs::set_permissions(&next, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused().contains(NEXT_FILE), "{}", refused());
    fs::set_permissions(&next, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&next, "nonsense").unwrap();
    assert!(refused().contains(NEXT_FILE), "{}", refused());
    fs::remove_file(&next).unwrap();
    fs::write(folder.join(SUCCESSORS_FILE), "nonsense").unwrap();
    assert!(refused().contains(SUCCESSORS_FILE), "{}", refused());
    fs::remove_file(folder.join(SUCCESSORS_FILE)).unwrap();
    follows(&load(folder), &[], present);
}

#[test]
fn a_check_finds_what_keeps_a_start_from_reading_the_keys_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let missing = folder.join("pki");
    MasterIdentity::check(&missing).unwrap();
    assert!(!missing.exists());
    load(folder);
    MasterIdentity::prepare_next(folder).unwrap();
    MasterIdentity::check(folder).unwrap();
    for file in ["identity.key", "noise.key", NEXT_FILE] {
        let path = folder.join(file);
        let kept = fs::read(&path).unwrap();
        fs::write(&path, "no key").unwrap();
        let error = MasterIdentity::check(folder).unwrap_err().to_string();
        assert!(error.contains(file), "{error}");
        fs::write(&path, kept).unwrap();
    }
    MasterIdentity::check(folder).unwrap();
    fs::write(folder.join(SUCCESSORS_FILE), "no records").unwrap();
    let error = MasterIdentity::check(folder).unwrap_err().to_string();
    assert!(error.contains(SUCCESSORS_FILE), "{error}");
    fs::remove_file(folder.join(SUCCESSORS_FILE)).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    let error = MasterIdentity::check(folder).unwrap_err().to_string();
    assert!(error.contains("chmod go-w"), "{error}");
}

#[test]
fn a_next_identity_without_a_present_one_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    MasterIdentity::prepare_next(folder).unwrap();
    for error in [
        MasterIdentity::load_or_create(folder)
            .map(drop)
            .unwrap_err(),
        MasterIdentity::check(folder).unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(
            error.contains("put identity.key back") && error.contains("remove this file"),
            "{error}"
        );
    }
}
