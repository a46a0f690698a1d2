use std::cell::RefCell;

use saline_config::MasterConfig;
use saline_messages::{KeyReply, MinionId};

use super::change::PORTION;
use super::*;
use crate::screen::Printed;

fn entry(id: &str, state: KeyState) -> KeyEntry {
    KeyEntry {
        id: MinionId::parse(id).unwrap(),
        state,
        identity: [7; 32],
    }
}

/// Carries out `line` with `answers`, on a store without a master. Returns what is printed.
async fn carried_out(line: &str, answers: &[&str], act: &Offline<'_>) -> String {
    let arguments = KeyArguments::read(line.split(' ').map(OsString::from)).unwrap();
    let config = MasterConfig::default();
    let store = KeyStore::Offline {
        config: &config,
        act,
    };
    let mut printed = Printed::default();
    let mut screen = printed.screen(answers);
    let command = KeyCommand {
        store: &store,
        format: match arguments.quiet {
            true => Format::Quiet,
            false => arguments.output.format(),
        },
        style: Style::default(),
        yes: arguments.yes,
        shows_last_seen: false,
    };
    let code = command
        .carry_out(&mut screen, arguments.verb())
        .await
        .unwrap();
    format!("{}--- exit {code}", printed.shown())
}

/// Types `line` with `answers`, on a store without a master; `gone` has changed meanwhile.
async fn typed(line: &str, answers: &[&str], gone: &str) -> (String, Vec<KeyRequest>) {
    let asked = RefCell::new(Vec::new());
    let act = |_: &MasterConfig, request: KeyRequest| {
        asked.borrow_mut().push(request.clone());
        let keys = match request {
            KeyRequest::List => vec![
                entry("m1", KeyState::Pending),
                entry("m0", KeyState::Pending),
                entry("ok", KeyState::Accepted),
                entry("bad", KeyState::Rejected),
                entry("ok", KeyState::Denied),
            ],
            KeyRequest::RotateIdentity => Vec::new(),
            KeyRequest::Act { action, keys, .. } => keys
                .into_iter()
                .filter(|key| key.id.as_str() != gone)
                .map(|key| KeyEntry {
                    state: match action {
                        KeyAction::Accept => KeyState::Accepted,
                        KeyAction::Reject => KeyState::Rejected,
                        KeyAction::Delete => key.state,
                    },
                    ..key
                })
                .collect(),
        };
        Ok(KeyReply {
            keys,
            master: [9; 32],
            next_master: None,
            duplicates: Vec::new(),
            missing: Vec::new(),
        })
    };
    let shown = carried_out(line, answers, &act).await;
    let asked = asked.into_inner();
    (shown, asked)
}

async fn shown(line: &str, answers: &[&str]) -> String {
    typed(line, answers, "").await.0
}

#[tokio::test]
async fn lists() {
    insta::assert_snapshot!(shown("saline-key -L", &[]).await, @"
    --- stdout
    Accepted Keys:
    ok
    Denied Keys:
    ok
    Unaccepted Keys:
    m0
    m1
    Rejected Keys:
    bad
    --- stderr
    WARNING: a second machine uses the id ok. Its denied key has the fingerprint 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, the accepted key has 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0. If the denied one is right, as after a reinstallation, let it in with saline-key -a ok --include-denied --finger 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, which replaces the other key; otherwise give that machine another id, and delete its key with saline-key -d ok --only-denied.
    --- exit 0
    ");
    insta::assert_snapshot!(shown("saline-key -l un", &[]).await, @"
    --- stdout
    Unaccepted Keys:
    m0
    m1
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(shown("saline-key -L --out=json", &[]).await, @r#"
    --- stdout
    {
        "minions_pre": [
            "m0",
            "m1"
        ],
        "minions_rejected": [
            "bad"
        ],
        "minions": [
            "ok"
        ],
        "minions_denied": [
            "ok"
        ]
    }
    --- stderr
    WARNING: a second machine uses the id ok. Its denied key has the fingerprint 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, the accepted key has 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0. If the denied one is right, as after a reinstallation, let it in with saline-key -a ok --include-denied --finger 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, which replaces the other key; otherwise give that machine another id, and delete its key with saline-key -d ok --only-denied.
    --- exit 0
    "#);
    insta::assert_snapshot!(shown("saline-key -L -q", &[]).await, @"
    --- stdout
    --- stderr
    WARNING: a second machine uses the id ok. Its denied key has the fingerprint 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, the accepted key has 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0. If the denied one is right, as after a reinstallation, let it in with saline-key -a ok --include-denied --finger 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, which replaces the other key; otherwise give that machine another id, and delete its key with saline-key -d ok --only-denied.
    --- exit 0
    ");
}

#[tokio::test]
async fn fingerprints_and_keys() {
    insta::assert_snapshot!(shown("saline-key -f m0", &[]).await, @"
    --- stdout
    Unaccepted Keys:
    m0:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(shown("saline-key -F", &[]).await, @"
    --- stdout
    Local Keys:
    master.pub:  8c:0c:c1:7a:04:94:2c:c4:f8:e0:fe:0b:30:26:06:d3:10:88:60:c1:26:42:8b:a2:ce:eb:5f:9e:d4:1c:2b:05
    Accepted Keys:
    ok:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Denied Keys:
    ok:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Unaccepted Keys:
    m0:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    m1:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Rejected Keys:
    bad:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    --- stderr
    WARNING: a second machine uses the id ok. Its denied key has the fingerprint 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, the accepted key has 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0. If the denied one is right, as after a reinstallation, let it in with saline-key -a ok --include-denied --finger 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, which replaces the other key; otherwise give that machine another id, and delete its key with saline-key -d ok --only-denied.
    --- exit 0
    ");
    insta::assert_snapshot!(shown("saline-key -p ok --out json", &[]).await, @r#"
    --- stdout
    {
        "minions": {
            "ok": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEABwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n-----END PUBLIC KEY-----"
        },
        "minions_denied": {
            "ok": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEABwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n-----END PUBLIC KEY-----"
        }
    }
    --- stderr
    WARNING: a second machine uses the id ok. Its denied key has the fingerprint 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, the accepted key has 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0. If the denied one is right, as after a reinstallation, let it in with saline-key -a ok --include-denied --finger 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0, which replaces the other key; otherwise give that machine another id, and delete its key with saline-key -d ok --only-denied.
    --- exit 0
    "#);
    insta::assert_snapshot!(shown("saline-key -p m1", &[]).await, @"
    --- stdout
    Unaccepted Keys:
    m1:  -----BEGIN PUBLIC KEY-----
    MCowBQYDK2VwAyEABwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=
    -----END PUBLIC KEY-----
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(shown("saline-key -f nosuch", &[]).await, @"
    --- stdout
    The key glob 'nosuch' does not match any unaccepted, accepted, rejected or denied keys.
    --- stderr
    --- exit 1
    ");
}

#[tokio::test]
async fn accepting_asks_first() {
    let (text, asked) = typed("saline-key -a m*", &["\n"], "").await;
    insta::assert_snapshot!(text, @"
    --- stdout
    The following keys are going to be accepted:
    Unaccepted Keys:
    m0:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    m1:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Proceed? [n/Y] Key for minion m0 accepted.
    Key for minion m1 accepted.
    --- stderr
    --- exit 0
    ");
    assert!(
        matches!(&asked[1], KeyRequest::Act { action: KeyAction::Accept, keys, .. } if keys.len() == 2)
    );
    for answer in [&["n\n"][..], &["x\n"]] {
        let (text, asked) = typed("saline-key -A", answer, "").await;
        assert_eq!(asked.len(), 1, "nothing was changed");
        assert!(text.ends_with("--- exit 0"));
    }
    let (text, asked) = typed("saline-key -a m1", &[], "").await;
    assert_eq!(asked.len(), 1, "nothing was changed");
    insta::assert_snapshot!(text, @"
    --- stdout
    The following keys are going to be accepted:
    Unaccepted Keys:
    m1:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Proceed? [n/Y]·
    --- stderr
    ERROR: not confirmed, nothing changed: run this at a terminal, or add -y
    --- exit 1
    ");
    insta::assert_snapshot!(shown("saline-key -a m1 -y", &[]).await, @"
    --- stdout
    The following keys are going to be accepted:
    Unaccepted Keys:
    m1:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Key for minion m1 accepted.
    --- stderr
    --- exit 0
    ");
}

#[tokio::test]
async fn deleting_asks_the_other_way_round() {
    let (_, asked) = typed("saline-key -d ok", &["\n"], "").await;
    assert_eq!(asked.len(), 1);
    insta::assert_snapshot!(shown("saline-key -d ok", &["Yes\n"]).await, @"
    --- stdout
    The following keys are going to be deleted:
    Accepted Keys:
    ok:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Denied Keys:
    ok:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Proceed? [N/y] Key for minion ok deleted.
    Key for minion ok deleted.
    --- stderr
    --- exit 0
    ");
}

#[tokio::test]
async fn what_matches_nothing_and_what_has_changed_meanwhile() {
    insta::assert_snapshot!(shown("saline-key -a x -y", &[]).await, @"
    --- stdout
    The key glob 'x' does not match any unaccepted keys.
    --- stderr
    --- exit 1
    ");
    insta::assert_snapshot!(shown("saline-key -d x -y", &[]).await, @"
    --- stdout
    The key glob 'x' does not match any unaccepted, accepted, rejected or denied keys.
    --- stderr
    --- exit 1
    ");
    insta::assert_snapshot!(typed("saline-key -r m* -y", &[], "m0").await.0, @"
    --- stdout
    The following keys are going to be rejected:
    Unaccepted Keys:
    m0:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    m1:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Key for minion m1 rejected.
    --- stderr
    ERROR: Key for minion m0 was left alone: it is not unaccepted any more.
    --- exit 1
    ");
    insta::assert_snapshot!(shown("saline-key -a [ -y", &[]).await, @"
    --- stdout
    --- stderr
    ERROR: not a glob: unclosed character class; missing ']'
    --- exit 64
    ");
}

#[tokio::test]
async fn json_stays_json_while_keys_are_changed() {
    insta::assert_snapshot!(shown("saline-key -A --out json", &["y\n"]).await, @r#"
    --- stdout
    {
        "minions": [
            "m0",
            "m1"
        ]
    }
    --- stderr
    The following keys are going to be accepted:
    Unaccepted Keys:
    m0:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    m1:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    Proceed? [n/Y] Key for minion m0 accepted.
    Key for minion m1 accepted.
    --- exit 0
    "#);
}

#[tokio::test]
async fn a_file_without_a_key_is_named_and_can_only_be_deleted() {
    let run = async |line: &str| {
        let act = |_: &MasterConfig, request: KeyRequest| {
            let damaged = KeyEntry {
                identity: KeyEntry::NO_KEY,
                ..entry("m1", KeyState::Pending)
            };
            let keys = match request {
                KeyRequest::List => vec![entry("m0", KeyState::Pending), damaged],
                KeyRequest::RotateIdentity => Vec::new(),
                KeyRequest::Act { action, .. } => {
                    assert_eq!(action, KeyAction::Delete);
                    vec![damaged]
                }
            };
            Ok(KeyReply {
                keys,
                master: [9; 32],
                next_master: None,
                duplicates: Vec::new(),
                missing: Vec::new(),
            })
        };
        carried_out(line, &[], &act).await
    };
    insta::assert_snapshot!(run("saline-key -L").await, @"
    --- stdout
    Accepted Keys:
    Denied Keys:
    Unaccepted Keys:
    m0
    m1
    Rejected Keys:
    --- stderr
    WARNING: the file minions_pre/m1 cannot be read by the master, or holds no key: it counts as no key. Mend it, or delete it with saline-key -d m1
    --- exit 0
    ");
    insta::assert_snapshot!(run("saline-key -f m1").await, @"
    --- stdout
    Unaccepted Keys:
    m1:  no readable key
    --- stderr
    WARNING: the file minions_pre/m1 cannot be read by the master, or holds no key: it counts as no key. Mend it, or delete it with saline-key -d m1
    --- exit 0
    ");
    insta::assert_snapshot!(run("saline-key -a m1").await, @"
    --- stdout
    The key glob 'm1' does not match any unaccepted keys.
    --- stderr
    --- exit 1
    ");
    insta::assert_snapshot!(run("saline-key -y -d m1").await, @"
    --- stdout
    The following keys are going to be deleted:
    Unaccepted Keys:
    m1:  no readable key
    Key for minion m1 deleted.
    --- stderr
    --- exit 0
    ");
}

#[tokio::test]
async fn the_keys_that_were_changed_before_a_failure_are_named() {
    let asked = RefCell::new(0);
    let act = |_: &MasterConfig, request: KeyRequest| {
        let keys = match request {
            KeyRequest::List => (0..=PORTION)
                .map(|number| entry(&format!("m{number:04}"), KeyState::Pending))
                .collect(),
            KeyRequest::RotateIdentity => Vec::new(),
            KeyRequest::Act { keys, .. } => {
                if asked.replace_with(|times| *times + 1) > 0 {
                    return Err("the master is away".to_owned());
                }
                let accepted = keys.iter();
                accepted
                    .map(|key| entry(key.id.as_str(), KeyState::Accepted))
                    .collect()
            }
        };
        Ok(KeyReply {
            keys,
            master: [9; 32],
            next_master: None,
            duplicates: Vec::new(),
            missing: Vec::new(),
        })
    };
    let told = carried_out("saline-key -A -y", &[], &act).await;
    assert_eq!(told.matches(" accepted.\n").count(), PORTION);
    let counted = format!(
        "{PORTION} of {} keys were accepted before the error",
        PORTION + 1
    );
    assert!(
        told.contains("--- stderr\nERROR: the master is away\n") && told.contains(&counted),
        "{told}"
    );
    assert!(!told.contains("left alone"), "{told}");
    assert!(told.ends_with("--- exit 1"), "{told}");
}

/// A key of an id, whose bytes are all this number.
fn numbered(id: &str, state: KeyState, number: u8) -> KeyEntry {
    KeyEntry {
        identity: [number; 32],
        ..entry(id, state)
    }
}

/// Types `line` with -y on a store with these keys, and with the keys of these minions missing. Returns what is printed,
/// and the keys that it acts on.
async fn acted(line: &str, keys: &[KeyEntry], missing: &[&str]) -> (String, Vec<KeyEntry>) {
    let asked = RefCell::new(Vec::new());
    let act = |_: &MasterConfig, request: KeyRequest| {
        let keys = match request {
            KeyRequest::List => keys.to_vec(),
            KeyRequest::RotateIdentity => Vec::new(),
            KeyRequest::Act { keys, .. } => {
                asked.borrow_mut().extend(keys.iter().cloned());
                keys
            }
        };
        let missing = missing.iter().map(|id| MinionId::parse(id).unwrap());
        Ok(KeyReply {
            keys,
            master: [9; 32],
            next_master: None,
            duplicates: Vec::new(),
            missing: missing.collect(),
        })
    };
    let shown = carried_out(line, &[], &act).await;
    (shown, asked.into_inner())
}

#[tokio::test]
async fn a_denied_key_is_told_where_another_one_is_accepted_and_in_one_line_above_ten() {
    let mut keys = vec![
        numbered("nobody", KeyState::Denied, 3),
        numbered("waits", KeyState::Denied, 4),
        numbered("waits", KeyState::Pending, 5),
    ];
    let (text, _) = acted("saline-key -l den", &keys, &[]).await;
    insta::assert_snapshot!(text, @"
    --- stdout
    Denied Keys:
    nobody
    waits
    --- stderr
    --- exit 0
    ");
    for number in 0..11 {
        let id = format!("web{number}");
        keys.push(numbered(&id, KeyState::Accepted, 1));
        keys.push(numbered(&id, KeyState::Denied, 2));
        let (text, _) = acted("saline-key -l den", &keys, &[]).await;
        let lines = text.matches("WARNING: ").count();
        assert_eq!(lines, if number < 10 { number + 1 } else { 1 });
    }
    let (text, _) = acted("saline-key -l den", &keys, &[]).await;
    insta::assert_snapshot!(text, @"
    --- stdout
    Denied Keys:
    nobody
    waits
    web0
    web1
    web10
    web2
    web3
    web4
    web5
    web6
    web7
    web8
    web9
    --- stderr
    WARNING: 11 denied keys use ids of accepted minions: saline-key -f ID shows both keys of one and says what to do, saline-key -D --only-denied deletes the denied ones.
    --- exit 0
    ");
    // Each can be looked at alone, and all can be deleted.
    let (text, _) = acted("saline-key -f web7", &keys, &[]).await;
    assert!(text.contains("saline-key -d web7 --only-denied"), "{text}");
    let (_, deleted) = acted("saline-key -y -D --only-denied", &keys, &[]).await;
    assert_eq!(deleted.len(), 13);
    assert!(deleted.iter().all(|key| key.state == KeyState::Denied));
}

#[tokio::test]
async fn a_denied_key_is_deleted_alone() {
    let keys = [
        numbered("web1", KeyState::Accepted, 1),
        numbered("web1", KeyState::Denied, 2),
    ];
    let (_, deleted) = acted("saline-key -y -d web1 --only-denied", &keys, &[]).await;
    assert_eq!(deleted, keys[1..]);
    let fingerprint = PublicIdentity([2; 32]).fingerprint();
    let line = format!("saline-key -y -d web1 --finger {fingerprint}");
    assert_eq!(acted(&line, &keys, &[]).await.1, keys[1..]);
}

#[tokio::test]
async fn only_the_key_with_the_fingerprint_that_was_compared_is_changed() {
    let keys = [
        numbered("web1", KeyState::Rejected, 1),
        numbered("web2", KeyState::Pending, 2),
        numbered("web3", KeyState::Accepted, 3),
    ];
    let finger = |number: u8| PublicIdentity([number; 32]).fingerprint();
    let typed = async |line: String| acted(&line, &keys, &[]).await;
    let (text, changed) = typed(format!("saline-key -y -a web2 --finger {}", finger(2))).await;
    assert_eq!(changed, keys[1..2], "{text}");
    let upper = finger(2).to_uppercase().replace(':', "");
    let (_, changed) = typed(format!("saline-key -y -a web2 -f {upper}")).await;
    assert_eq!(changed, keys[1..2]);
    let mut shown = String::new();
    for line in [
        format!(
            "saline-key -y -a web1 --include-rejected --finger {}",
            finger(9)
        ),
        format!("saline-key -y -a web1 --finger {}", finger(1)),
        format!("saline-key -y -a web2 --finger {}", finger(1)),
        format!("saline-key -y -a web3 --finger {}", finger(3)),
        format!("saline-key -y -r web3 --finger {}", finger(3)),
        format!("saline-key -y -d web3 --only-denied --finger {}", finger(3)),
    ] {
        let (text, changed) = typed(line).await;
        assert_eq!(changed, [], "{text}");
        shown.push_str(&text);
        shown.push('\n');
    }
    insta::assert_snapshot!(shown, @"
    --- stdout
    --- stderr
    ERROR: no key has the fingerprint 8c:0c:c1:7a:04:94:2c:c4:f8:e0:fe:0b:30:26:06:d3:10:88:60:c1:26:42:8b:a2:ce:eb:5f:9e:d4:1c:2b:05, so nothing was changed
    The rejected key of web1 has 72:cd:6e:84:22:c4:07:fb:6d:09:86:90:f1:13:0b:7d:ed:7e:c2:f7:f5:e1:d3:0b:d9:d5:21:f0:15:36:37:93. If it is wrong, saline-key -d web1 --finger 72:cd:6e:84:22:c4:07:fb:6d:09:86:90:f1:13:0b:7d:ed:7e:c2:f7:f5:e1:d3:0b:d9:d5:21:f0:15:36:37:93 deletes it, and the machine with the right key is listed when it asks again
    --- exit 1
    --- stdout
    --- stderr
    ERROR: the key of web1 with this fingerprint is rejected: add --include-rejected
    --- exit 1
    --- stdout
    --- stderr
    ERROR: no key has the fingerprint 72:cd:6e:84:22:c4:07:fb:6d:09:86:90:f1:13:0b:7d:ed:7e:c2:f7:f5:e1:d3:0b:d9:d5:21:f0:15:36:37:93, so nothing was changed
    The unaccepted key of web2 has 75:87:7b:b4:1d:39:3b:5f:b8:45:5c:e6:0e:cd:8d:da:00:1d:06:31:64:96:b1:4d:fa:7f:89:56:56:ee:ca:4a
    --- exit 1
    --- stdout
    --- stderr
    ERROR: the key of web3 with this fingerprint is accepted already
    --- exit 1
    --- stdout
    --- stderr
    ERROR: the key of web3 with this fingerprint is accepted: add --include-accepted
    --- exit 1
    --- stdout
    --- stderr
    ERROR: the key of web3 with this fingerprint is accepted: leave out --only-denied
    --- exit 1
    ");
}

#[tokio::test]
async fn keys_that_are_all_missing_are_told_and_deleted() {
    let (text, _) = acted("saline-key -L", &[], &["web1", "web2"]).await;
    insta::assert_snapshot!(text, @"
    --- stdout
    Accepted Keys:
    Denied Keys:
    Unaccepted Keys:
    Rejected Keys:
    --- stderr
    WARNING: the accepted keys of all 2 minions are missing, as when their folder is not mounted: the minions are refused, and their sessions end within a minute. Put the files back, or revoke them with saline-key -D
    --- exit 0
    ");
    let (text, deleted) = acted("saline-key -y -D", &[], &["web1", "web2"]).await;
    insta::assert_snapshot!(text, @"
    --- stdout
    The following keys are going to be deleted:
    Accepted Keys:
    web1:  no readable key
    web2:  no readable key
    Key for minion web1 deleted.
    Key for minion web2 deleted.
    --- stderr
    --- exit 0
    ");
    assert_eq!(deleted.len(), 2);
    assert!(deleted.iter().all(|key| !key.holds_key()));
    let (text, changed) = acted("saline-key -y -a web1", &[], &["web1", "web2"]).await;
    assert_eq!(changed, [], "{text}");
}

/// Carries out a command with a master whose next identity waits, if one is to wait. Returns what was shown, and how often
/// the master was asked to make one.
async fn rotated(line: &str, answers: &[&str], waits: bool) -> (String, usize) {
    let asked = std::cell::Cell::new(0);
    let master = |_: &MasterConfig, request: KeyRequest| {
        let rotates = request == KeyRequest::RotateIdentity;
        asked.set(asked.get() + usize::from(rotates));
        Ok(KeyReply {
            keys: Vec::new(),
            master: [7; 32],
            next_master: (rotates || waits).then_some([8; 32]),
            duplicates: Vec::new(),
            missing: Vec::new(),
        })
    };
    let shown = carried_out(line, answers, &master).await;
    (shown, asked.get())
}

#[tokio::test]
async fn the_identity_is_rotated_once_it_is_confirmed() {
    let (shown, asked) = rotated("saline-key --rotate-identity", &["y\n"], false).await;
    assert_eq!(asked, 1);
    insta::assert_snapshot!(shown, @"
    --- stdout
    A new identity is going to take the place of 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0 when saline-master starts again. The present one signs it, and minions take it over when they connect.
    Proceed? [N/y] The next identity of the master has the fingerprint 25:78:cc:f8:64:5b:2d:1d:c1:0c:46:5e:ff:84:35:85:97:0f:3a:7e:22:29:6a:92:ca:d5:5d:48:9a:27:20:72. Restart saline-master to take it over, and back up its pki_dir after that.
    --- stderr
    --- exit 0
    ");
    for (answers, code) in [(&["n\n"][..], 0), (&["\n"], 0), (&[], 1)] {
        let (shown, asked) = rotated("saline-key --rotate-identity", answers, false).await;
        assert_eq!(asked, 0, "{shown}");
        assert!(shown.ends_with(&format!("--- exit {code}")), "{shown}");
    }
    let (shown, asked) = rotated("saline-key --rotate-identity -y --out json", &[], false).await;
    assert_eq!(asked, 1);
    insta::assert_snapshot!(shown, @r#"
    --- stdout
    {
        "local": {
            "master.pub.next": "25:78:cc:f8:64:5b:2d:1d:c1:0c:46:5e:ff:84:35:85:97:0f:3a:7e:22:29:6a:92:ca:d5:5d:48:9a:27:20:72"
        }
    }
    --- stderr
    A new identity is going to take the place of 4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0 when saline-master starts again. The present one signs it, and minions take it over when they connect.
    The next identity of the master has the fingerprint 25:78:cc:f8:64:5b:2d:1d:c1:0c:46:5e:ff:84:35:85:97:0f:3a:7e:22:29:6a:92:ca:d5:5d:48:9a:27:20:72. Restart saline-master to take it over, and back up its pki_dir after that.
    --- exit 0
    "#);
}

#[tokio::test]
async fn a_next_identity_is_shown_and_not_made_twice() {
    let (shown, asked) = rotated("saline-key --rotate-identity -y", &[], true).await;
    assert_eq!(asked, 0);
    insta::assert_snapshot!(shown, @"
    --- stdout
    The next identity of the master was made before: its fingerprint is 25:78:cc:f8:64:5b:2d:1d:c1:0c:46:5e:ff:84:35:85:97:0f:3a:7e:22:29:6a:92:ca:d5:5d:48:9a:27:20:72. Restart saline-master to take it over, or remove identity.next.key from the master's pki_dir to give it up.
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(rotated("saline-key -F", &[], true).await.0, @"
    --- stdout
    Local Keys:
    master.pub:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    master.pub.next:  25:78:cc:f8:64:5b:2d:1d:c1:0c:46:5e:ff:84:35:85:97:0f:3a:7e:22:29:6a:92:ca:d5:5d:48:9a:27:20:72
    --- stderr
    --- exit 0
    ");
}
