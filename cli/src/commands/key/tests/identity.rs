//! How the master's identity is rotated.

use super::*;

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
            apis: Vec::new(),
            warnings: Vec::new(),
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
