//! How keys are listed.

use super::*;

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
