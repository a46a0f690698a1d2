//! How keys are accepted, rejected and deleted.

use super::*;

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
                KeyRequest::RotateIdentity | KeyRequest::ActOnApis { .. } => Vec::new(),
                KeyRequest::Act { action, .. } => {
                    assert_eq!(action, KeyAction::Delete);
                    vec![damaged]
                }
            };
            Ok(reply(keys))
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
            KeyRequest::RotateIdentity | KeyRequest::ActOnApis { .. } => Vec::new(),
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
        Ok(reply(keys))
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
