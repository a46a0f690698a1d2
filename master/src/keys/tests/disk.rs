//! What lies in the folders, whoever put it there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::settings::KeyPolicy;
use proptest::prelude::*;
use saline_messages::KeyEntry;
use saline_protocol::transport::Source;

use KeyState::{Accepted, Denied, Pending, Rejected};

const AUTO: KeyPolicy = KeyPolicy {
    autosign: None,
    autoreject: None,
    auto_accept: true,
    open_mode: false,
    max_pending: 10,
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn folders_and_files_are_private() {
    let place = Place::new();
    drop(place.open());
    let folder = place.pki().join("minions");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let store = place.open();
    for state in KeyState::ALL {
        assert_eq!(mode(&place.pki().join(state.folder())), 0o700);
    }
    let _ = store.authenticate(&id("web1"), key(1), Source::Process, &AUTO);
    assert_eq!(mode(&place.file(Accepted, "web1")), 0o600);
    let text = fs::read_to_string(place.file(Accepted, "web1")).unwrap();
    assert!(text.starts_with("-----BEGIN PUBLIC KEY-----\n"), "{text}");
}

#[test]
fn a_folder_of_keys_to_which_others_could_write_is_refused() {
    let place = Place::new();
    drop(place.open());
    for name in ["minions", "minions_pre", "minions_rejected"] {
        let folder = place.pki().join(name);
        for bits in [0o777, 0o770, 0o1777] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(bits)).unwrap();
            let error = KeyStore::open(&place.pki(), Clock).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("chmod go-w"),
                "{error}"
            );
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    drop(place.open());
}

#[test]
fn a_lookup_sees_what_the_disk_has_now() {
    let place = Place::new();
    let store = place.open();
    let look = || store.lookup(&id("web1")).unwrap();
    assert_eq!(look(), None);
    place.seed(Pending, "web1", 1);
    assert_eq!(look(), Some((Pending, key(1))));
    let (from, to) = (place.file(Pending, "web1"), place.file(Accepted, "web1"));
    fs::rename(from, &to).unwrap();
    assert_eq!(look(), Some((Accepted, key(1))));
    place.seed(Accepted, "web1", 2);
    assert_eq!(look(), Some((Accepted, key(2))));
    place.seed(Denied, "web1", 3);
    assert_eq!(look(), Some((Accepted, key(2))));
    place.seed(Rejected, "web1", 4);
    assert_eq!(look(), Some((Accepted, key(2))), "it rejects itself");
    place.seed(Rejected, "web1", 2);
    assert_eq!(look(), Some((Rejected, key(2))));
    fs::write(place.file(Rejected, "web1"), "slip").unwrap();
    assert_eq!(look(), None);
    fs::remove_file(place.file(Rejected, "web1")).unwrap();
    fs::remove_file(to).unwrap();
    assert_eq!(look(), Some((Denied, key(3))));
}

#[test]
fn accepted_ids_see_what_the_disk_has_now() {
    let place = Place::new();
    let store = place.open();
    let mut expected = BTreeSet::new();
    for round in 0..200_u32 {
        let name = format!("m{:03}", round * 7 % 50);
        let file = place.file(Accepted, &name);
        if expected.remove(&name) {
            fs::remove_file(file).unwrap();
        } else {
            place.seed(Accepted, &name, 1);
            expected.insert(name);
        }
        let ids = store.accepted_ids().unwrap();
        assert!(ids.iter().map(MinionId::as_str).eq(&expected), "{round}");
    }
}

#[test]
fn a_folder_at_rest_is_not_read_again() {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "web1", 1);
    let folder = fs::File::open(place.pki().join("minions")).unwrap();
    let long_ago = Clock.wall() - std::time::Duration::from_secs(60);
    folder.set_modified(long_ago).unwrap();
    let first = store.accepted_ids().unwrap();
    assert!(Arc::ptr_eq(&first, &store.accepted_ids().unwrap()));
    fs::write(place.file(Accepted, "junk"), "no key").unwrap();
    place.seed(Accepted, "web2", 2);
    assert_eq!(*store.accepted_ids().unwrap(), [id("web1"), id("web2")]);
}

#[test]
fn what_is_no_key_is_skipped() {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "good", 1);
    place.seed(Accepted, ".hidden", 1);
    place.seed(Accepted, "-dash", 1);
    place.seed(Accepted, "with space", 1);
    place.seed(Accepted, "ä", 1);
    let file = |name: &str| place.file(Accepted, name);
    fs::write(file("empty"), "").unwrap();
    fs::write(file("binary"), [0xff; 200]).unwrap();
    fs::write(file("large"), vec![b'\n'; 1 << 20]).unwrap();
    let rsa =
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----\n";
    fs::write(file("rsa"), rsa).unwrap();
    fs::create_dir(file("folder")).unwrap();
    symlink(file("good"), file("link")).unwrap();
    symlink("/dev/zero", file("zero")).unwrap();
    symlink("nowhere", file("dangling")).unwrap();
    // Reading a pipe would wait for ever for one who writes.
    rustix::fs::mknodat(
        rustix::fs::CWD,
        file("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let (keys, others): (Vec<_>, Vec<_>) = store
        .list()
        .unwrap()
        .into_iter()
        .partition(KeyEntry::holds_key);
    assert_eq!(keys.len(), 1);
    assert_eq!(others.len(), 8, "{others:?}");
    assert!(others.iter().all(|key| key.id != id("folder")));
    assert_eq!(*store.accepted_ids().unwrap(), [id("good")]);
    for name in [
        "empty", "binary", "large", "rsa", "folder", "link", "zero", "pipe",
    ] {
        assert_eq!(store.lookup(&id(name)).unwrap(), None, "{name}");
    }
}

#[test]
fn a_file_without_a_key_can_only_be_deleted() {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "good", 1);
    let damaged = [(Accepted, id("damaged"))];
    let path = place.file(Accepted, "damaged");
    fs::write(&path, "no key").unwrap();
    for action in [KeyAction::Accept, KeyAction::Reject] {
        let applied = store.apply(&act(&store, action, damaged.to_vec()));
        assert!(applied.changes.is_empty() && applied.error.is_none());
        assert!(path.exists());
    }
    let applied = store.apply(&act(&store, KeyAction::Delete, damaged.to_vec()));
    assert_eq!(applied.changes.len(), 1);
    assert!(applied.changes[0].ends_sessions());
    assert!(!path.exists());
    assert_eq!(listing(&store), [(Accepted, "good".to_owned(), 1)]);
}

#[test]
fn a_folder_in_the_place_of_a_key_is_left_alone() {
    let place = Place::new();
    let store = place.open();
    let folder = place.file(Accepted, "folder");
    fs::create_dir(&folder).unwrap();
    let delete = act(&store, KeyAction::Delete, vec![(Accepted, id("folder"))]);
    let refused = store.apply(&delete).error.unwrap().to_string();
    assert!(refused.starts_with("cannot remove "), "{refused}");
    assert!(folder.exists());
}

#[test]
fn a_write_replaces_a_link_and_not_what_it_leads_to() {
    let place = Place::new();
    let store = place.open();
    let victim = place.folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, place.file(Accepted, "web1")).unwrap();
    symlink(&victim, place.file(Accepted, ".unfinished")).unwrap();
    let open = KeyPolicy {
        open_mode: true,
        ..AUTO
    };
    let _ = store.authenticate(&id("web1"), key(1), Source::Process, &open);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(store.lookup(&id("web1")).unwrap(), Some((Accepted, key(1))));
}

#[test]
fn what_was_left_unfinished_is_gone_and_the_longest_id_has_room() {
    let place = Place::new();
    drop(place.open());
    fs::write(place.file(Pending, ".unfinished"), "half").unwrap();
    let store = place.open();
    assert!(!place.file(Pending, ".unfinished").exists());
    let long = "x".repeat(255);
    let verdict = store.authenticate(&id(&long), key(1), Source::Process, &AUTO);
    assert!(verdict.result);
    assert_eq!(store.lookup(&id(&long)).unwrap(), Some((Accepted, key(1))));
}

#[test]
fn many_at_once_for_one_id_leave_one_key() {
    let place = Place::new();
    let store = place.open();
    std::thread::scope(|scope| {
        for number in 1..=8 {
            let store = &store;
            scope.spawn(move || {
                store.authenticate(&id("web1"), key(number), Source::Process, &AUTO)
            });
        }
    });
    let found = listing(&store);
    let states: Vec<_> = found.iter().map(|(state, ..)| *state).collect();
    assert_eq!(states, [Accepted, Denied]);
}

/// Everything below the folder.
fn tree(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
            found.insert(entry.path());
        }
    }
    found
}

/// Ids as those write them who want a path.
const CORPUS: &[&str] = &[
    "..",
    ".",
    "",
    "/",
    "//",
    "../minions/x",
    "../../etc/passwd",
    "/etc/passwd",
    "a/../b",
    "a/b",
    "..\\x",
    "a\\b",
    "x\0",
    "\0",
    "x\0/../y",
    "./x",
    "~root",
    "~",
    "%2e%2e%2f",
    "..%2f",
    "a%00b",
    "\u{202e}x",
    "\u{ff0e}\u{ff0e}\u{ff0f}x",
    "ä",
    "a\u{301}",
    "\u{2215}x",
    "x\n",
    "x\r\ny",
    " x",
    "x ",
    "*",
    "?",
    "[a]",
    "$(id)",
    "`id`",
    "x;y",
    "x|y",
    ".unfinished",
    "-rf",
    "--",
    "CON:",
    "a:b",
];

#[test]
fn no_name_of_a_path_is_an_id() {
    for bad in CORPUS {
        assert!(MinionId::parse(bad).is_err(), "{bad:?}");
    }
    assert!(MinionId::parse(&"../".repeat(80)).is_err());
    assert!(MinionId::parse(&"x".repeat(256)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_becomes_an_id_is_one_file_in_its_folder(
        text in prop_oneof![
            "[./\\\\a-b\0-]{0,12}",
            "\\PC{0,20}",
            "[A-Za-z0-9._-]{1,40}",
            proptest::sample::select(CORPUS).prop_map(str::to_owned),
        ],
    ) {
        let place = Place::new();
        let store = place.open();
        let before = tree(place.folder.path());
        let Ok(id) = MinionId::parse(&text) else { return Ok(()) };
        let _ = store.authenticate(&id, key(1), Source::Process, &AUTO);
        let mut expected = before.clone();
        expected.insert(place.pki().join("minions").join(&text));
        prop_assert_eq!(tree(place.folder.path()), expected);
        store.apply(&act(&store, KeyAction::Reject, vec![(Accepted, id.clone())]));
        store.apply(&act(&store, KeyAction::Delete, vec![(Rejected, id)]));
        prop_assert_eq!(tree(place.folder.path()), before);
    }
}
