//! How the keys of APIs are listed, accepted and deleted.

use super::*;
use saline_messages::ApiKeyAction;

/// Types `line` on a store with these keys of APIs. Returns what is printed, and the keys that it acts on.
async fn typed_about(line: &str, apis: &[KeyEntry]) -> (String, Vec<(ApiKeyAction, KeyEntry)>) {
    let asked = RefCell::new(Vec::new());
    let act = |_: &MasterConfig, request: KeyRequest| {
        let apis = match request {
            KeyRequest::List => apis.to_vec(),
            KeyRequest::ActOnApis { action, keys, .. } => {
                let acted = keys.iter().map(|key| (action, key.clone()));
                asked.borrow_mut().extend(acted);
                keys
            }
            other => panic!("{other:?}"),
        };
        Ok(KeyReply {
            apis,
            ..reply(vec![entry("m1", KeyState::Accepted)])
        })
    };
    let shown = carried_out(line, &[], &act).await;
    (shown, asked.into_inner())
}

fn fingerprint(number: u8) -> String {
    PublicIdentity([number; 32]).fingerprint()
}

fn apis() -> Vec<KeyEntry> {
    vec![
        numbered("old", KeyState::Accepted, 7),
        numbered("web", KeyState::Accepted, 8),
        numbered("web", KeyState::Pending, 9),
    ]
}

#[tokio::test]
async fn keys_of_apis_are_listed_with_their_fingerprints() {
    let (shown, _) = typed_about("saline-key -L", &apis()).await;
    insta::assert_snapshot!(shown, @"
    --- stdout
    Accepted Keys:
    m1
    Denied Keys:
    Unaccepted Keys:
    Rejected Keys:
    Accepted API Keys:
    old:  4b:b0:6f:8e:4e:3a:77:15:d2:01:d5:73:d0:aa:42:37:62:e5:5d:ab:d6:1a:2c:02:27:8f:a5:6c:c6:d2:94:e0
    web:  25:78:cc:f8:64:5b:2d:1d:c1:0c:46:5e:ff:84:35:85:97:0f:3a:7e:22:29:6a:92:ca:d5:5d:48:9a:27:20:72
    Unaccepted API Keys:
    web:  8c:0c:c1:7a:04:94:2c:c4:f8:e0:fe:0b:30:26:06:d3:10:88:60:c1:26:42:8b:a2:ce:eb:5f:9e:d4:1c:2b:05
    --- stderr
    --- exit 0
    ");
    let (shown, _) = typed_about("saline-key -L --out json", &apis()).await;
    assert!(shown.contains("\"apis_pre\""), "{shown}");
    let (shown, _) = typed_about("saline-key -l acc", &apis()).await;
    assert!(shown.contains("Accepted API Keys:"), "{shown}");
    assert!(!shown.contains("Unaccepted API Keys:"), "{shown}");
    let (shown, _) = typed_about("saline-key -L", &[]).await;
    assert!(!shown.contains("API"), "{shown}");
}

#[tokio::test]
async fn the_key_with_the_fingerprint_is_accepted_and_no_other() {
    let line = format!(
        "saline-key --accept-operator {} --api",
        fingerprint(9).to_uppercase()
    );
    let (shown, acted) = typed_about(&line, &apis()).await;
    let accepted = (ApiKeyAction::Accept, numbered("web", KeyState::Pending, 9));
    assert_eq!(acted, [accepted]);
    let line = format!(
        "Key for API web accepted, in the place of the key {}.",
        fingerprint(8)
    );
    assert!(shown.contains(&line), "{shown}");
    assert!(shown.ends_with("exit 0"), "{shown}");

    let line = format!("saline-key --accept-operator {} --api", fingerprint(7));
    let (shown, acted) = typed_about(&line, &apis()).await;
    assert!(
        shown.contains("The key of API old is accepted already."),
        "{shown}"
    );
    assert_eq!(acted, []);
}

#[tokio::test]
async fn another_fingerprint_changes_nothing_and_tells_what_waits() {
    let line = format!("saline-key --accept-operator {} --api", fingerprint(1));
    let (shown, acted) = typed_about(&line, &apis()).await;
    assert_eq!(acted, []);
    let told = format!("The key of API web has {}", fingerprint(9));
    assert!(shown.contains(&told), "{shown}");
    assert!(!shown.contains(&fingerprint(7)), "{shown}");
    assert!(shown.ends_with("exit 1"), "{shown}");
    let (shown, _) = typed_about(&line, &[]).await;
    assert!(
        shown.contains("so nothing was changed; none waits"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_key_is_deleted_whether_it_is_accepted_or_waits() {
    for key in apis() {
        let finger = PublicIdentity(key.identity).fingerprint();
        let line = format!("saline-key --delete-operator {finger}");
        let (shown, acted) = typed_about(&line, &apis()).await;
        let told = format!("Key for API {} deleted.", key.id);
        assert!(shown.contains(&told), "{shown}");
        assert_eq!(acted, [(ApiKeyAction::Delete, key)]);
    }
}
